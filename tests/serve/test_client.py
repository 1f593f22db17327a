"""`RemoteRunnable` and a server that is none, or sends what it must not: typed errors, nothing lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foldline.exceptions import FoldlineError, MalformedStreamError, ModelStatusError
from foldline.serve import RemoteRunnable
from tests.servers.fixtures import fault_server, fault_server_process  # noqa: F401
from tests.servers.script import Answer, json_answer, sse_answer


def event(method: str, data: Any, seq: Any = 1) -> dict[str, Any]:
    return {"method": method, "seq": seq, "params": {"namespace": [], "data": data}}


STARTED = event("run", {"event": "started", "run_id": "r1"}, 0)
ENDED = event("run", {"event": "success", "run_id": "r1"}, 9)


def test_F_Y03_a_large_chunk_arrives(call, fault_server):
    picture = "A" * (3 << 20)
    fault_server.script("/runs", sse_answer([STARTED, event("chunk", picture), ENDED]))

    assert call.stream(RemoteRunnable(fault_server.url), "x") == [picture]


ODD_ANSWERS = [
    b"",
    b"no JSON",
    b"[]",
    b"5",
    b"null",
    b"\xff",
    b"[" * 100_000,
    b'{"output": {"messages": [5]}}',
]


@pytest.mark.parametrize("body", ODD_ANSWERS, ids=lambda body: repr(body[:20]))
def test_an_answer_that_is_none_is_typed(call, fault_server, body):
    fault_server.script("/runs", Answer(body, headers={"content-type": "application/json"}))

    with pytest.raises(FoldlineError):
        call.invoke(RemoteRunnable(fault_server.url), "x")


ODD_EVENTS: list[Any] = [
    b"data: no JSON\n\n", b"data: \xff\n\n", [], 5, None, {}, {"method": "run"}, {"method": "run", "params": 5},
    event("run", {}), event("run", 5), event("run", {"event": "failed", "error": "text"}),
    event("chunk", 1, seq="1&x=y"), event("updates", {}), event("updates", 5), event("input.requested", []),
    event("messages", 5), {"method": "chunk", "params": {"data": 1}},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_EVENTS, ids=lambda odd: repr(odd)[:40])
def test_an_event_that_is_none_is_typed(call, fault_server, odd):
    fault_server.script("/runs", sse_answer([STARTED, odd, ENDED]))

    with pytest.raises(MalformedStreamError):
        call.stream(RemoteRunnable(fault_server.url), "x")


def test_the_id_of_a_run_is_one_part_of_an_address(call, fault_server):
    started = event("run", {"event": "started", "run_id": "../../steal?x=/y#"})
    fault_server.script("/runs", sse_answer([started, event("chunk", "a")]))

    with pytest.raises(FoldlineError):
        call.stream(RemoteRunnable(fault_server.url, key="canary"), "x")

    assert all("steal?" not in one.target for one in fault_server.requests())


@pytest.mark.parametrize(
    "wait", ["soon", True, [1], -1, float("nan"), 10**400], ids=lambda wait: repr(wait)[:9]
)
def test_a_wait_that_is_no_number_is_none(call, fault_server, wait):
    problem = {"error": {"message": "full", "retry_after": wait}}
    fault_server.script("/runs", json_answer(problem, status=429))

    with pytest.raises(ModelStatusError, match="full") as caught:
        call.invoke(RemoteRunnable(fault_server.url), "x")

    assert caught.value.retry_after is None


def test_a_wait_is_told(call, fault_server):
    problem = json.loads('{"error": {"message": "full", "retry_after": 3}}')
    fault_server.script("/runs", json_answer(problem, status=429))

    with pytest.raises(ModelStatusError) as caught:
        call.invoke(RemoteRunnable(fault_server.url), "x")

    assert caught.value.retry_after == 3
