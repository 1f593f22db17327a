"""Requests with odd bodies: every route answers with a sentence, never with a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from foldline.studio import create_app
from tests.studio.conftest import CHANGE, add, make_model
from tests.studio.test_api import asking_agent

FIELDS = (
    "answer", "args", "checkpoint_id", "comment", "expected", "forked_from", "form", "id", "message", "messages",
    "model", "name", "parameters", "resume", "run_id", "schema", "tools", "value",
)  # fmt: skip
"""All fields that requests may have."""
ODD: tuple[Any, ...] = (
    0, -1, 1.5, True, False, "", "x", "\ud800", "\0", [], [1], [None], [[]], ["x"], [{}], {}, {"a": 1},
    {"a": {"b": [1]}}, [{"role": 1}], [{"role": "user", "content": {"a": 1}}], [{"role": "nobody", "content": "x"}],
    [{"role": "user", "content": [1, None, {"type": 3}]}], [{"role": "tool", "tool_calls": "x", "content": "x"}],
    [{"role": "assistant", "content": "", "tool_calls": [{"name": 1, "args": "x"}]}], {"temperature": {}},
    {"base_url": "http://example.com"}, float("nan"), float("inf"), 10**400,
)  # fmt: skip
ROUTES = (
    "/api/chat", "/api/code", "/api/tools/add", "/api/tools/nothing", "/api/datasets/x/cases", "/api/datasets/x/run",
    "/api/datasets/%5B/cases", "/api/runs/x/scores", "/api/threads/booker/t/resume", "/api/threads/none/t/resume",
)  # fmt: skip


@pytest.fixture
def client(tmp_path: Any) -> Iterator[TestClient]:
    settings: dict[str, Any] = {
        "traces": tmp_path / "traces.db",
        "sessions": tmp_path / "sessions.db",
        "datasets": tmp_path / "datasets.db",
        "models": ("fake:plain",),
        "make_model": make_model,
        "tools": {"add": add},
        "apps": {"booker": asking_agent()},
        "hosts": ("testserver",),
    }
    with TestClient(
        create_app(**settings), headers=CHANGE, raise_server_exceptions=False
    ) as client:
        yield client


def bodies() -> Iterator[bytes]:
    valid = {"model": "fake:plain", "messages": [{"role": "user", "content": "x"}], "name": "n"}
    for form in ("python", "pytest", "prompt"):
        for field in FIELDS:
            for odd in ODD:
                yield json.dumps({**valid, "form": form, field: odd}).encode()
    yield from (b"", b"[]", b"1", b'"x"', b"null", b"{", b"\xff", b"{" * 5_000, b'{"a":' * 100_000)
    for name in ("messages", "schema", "resume", "args", "parameters"):
        deep = b'{"' + name.encode() + b'": ' + b"[" * 900 + b"]" * 900 + b"}"
        yield deep
        yield deep.replace(b"[", b'{"a":').replace(b"]", b"}").replace(b":}", b":1}")


@pytest.mark.parametrize("route", ROUTES)
def test_F_V01_an_odd_body_is_answered_with_a_sentence(client: TestClient, route: str):
    failures = []
    for body in bodies():
        answer = client.post(route, content=body)
        if answer.status_code >= 500 and "error" not in answer.text[:20]:
            failures.append((answer.status_code, body[:200]))
        if answer.status_code == 500:
            failures.append((answer.status_code, body[:200]))

    assert failures == []


@pytest.mark.parametrize(
    ("route", "body", "words"),
    [
        ("/api/code", {"model": {"a": 1}, "messages": "x"}, "messages must be a list of objects"),
        ("/api/code", {"model": {"a": 1}}, "model must be a text"),
        (
            "/api/datasets/x/cases",
            {"model": {"a": 1}, "messages": "x"},
            "messages must be a list of objects",
        ),
        (
            "/api/chat",
            {"model": "fake:plain", "messages": [{"role": 5}]},
            "messages[0].role must be a text",
        ),
        (
            "/api/runs/x/scores",
            {"name": "n", "value": float("inf")},
            "value must be a finite number",
        ),
    ],
)
def test_a_field_of_another_type_is_named(client: TestClient, route: str, body: Any, words: str):
    answer = client.post(route, content=json.dumps(body))

    assert answer.status_code == 400
    assert answer.json()["error"] == words


@pytest.mark.parametrize(
    "query",
    [
        "traces?limit=99999999999999999999999",
        "traces?offset=99999999999999999999999",
        "traces?since=nan",
        "traces?since=inf&until=inf",
        "traces?since=1e400",
        "traces?q=%00",
        "traces?q=%ED%A0%80",
        "figures?since=-inf",
        "figures?since=0&until=1e308",
        "figures?steps=1e9",
        "figures/models?since=nan",
        "live?after=x",
        "traces/%00",
        "runs/%5B",
        "traces/x/export?form=%5B",
        "sessions/%2e%2e",
        "threads/booker/%00",
        "datasets/%00",
    ],
)
def test_an_odd_address_is_no_crash(client: TestClient, query: str):
    client.post("/api/chat", json={"model": "fake:plain", "messages": [{"role": "user"}]})

    assert client.get(f"/api/{query}").status_code < 500
