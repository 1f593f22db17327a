"""The log of a server: JSON lines, an access log, ids of requests, and no text of clients or keys."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest

from foldline.serve import create_app
from foldline.serve._log_lines import JsonLines, TextLines
from foldline.serve._request_facts import REQUEST, RequestFacts, request_id_of
from tests.serve import served
from tests.serve.in_process import post_in_process
from tests.serve.process import ServeProcess
from tests.serve.wire_requests import requests_of

PROMPT = "xylophone-marmalade"
NAMES = {"time", "level", "logger", "message"}


class LoggedServer(ServeProcess):
    key: str

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stderr().splitlines()]

    def line(self, **fields: Any) -> dict[str, Any]:
        """Return the one line that has these fields; that of a request comes after its answer."""
        end = time.monotonic() + 10
        found: list[dict[str, Any]] = []
        while not found and time.monotonic() < end:
            found = [line for line in self.lines() if fields.items() <= line.items()]
        assert len(found) == 1, (fields, found)
        return found[0]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoggedServer]:
    options = ("--log-format", "json", "--log-level", "debug", "--no-trace")
    process = LoggedServer(tmp_path_factory.mktemp("logged"), options=options)
    process.key = process.add_key("alice")
    process.start()
    yield process
    process.stop()


def post(server: LoggedServer, path: str, body: Any, **headers: str) -> httpx.Response:
    head = {"authorization": f"Bearer {server.key}", **headers}
    return httpx.post(f"{server.url}{path}", json=body, headers=head, timeout=30)


def test_S33_every_line_is_json_and_a_failed_run_has_its_ids_and_its_stack(logged):
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    body = {"app": "chat", "input": "crash", "wait": True}
    answer = post(logged, "/runs", body, **{"x-request-id": "crash-1", "traceparent": parent})

    line = logged.line(request_id="crash-1", logger="foldline.serve")

    assert all(set(each) >= NAMES for each in logged.lines())
    assert abs(datetime.fromisoformat(line["time"]).timestamp() - datetime.now().timestamp()) < 600
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert line["level"] == "error"
    assert line["run_id"] == answer.json()["error"]["run_id"]
    assert line["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert (line["app"], line["wire"], line["key"]) == ("chat", "runs", "alice")
    assert line["error"]["class"] == "RuntimeError"
    assert "RuntimeError: a bug …" in line["error"]["stack"]
    assert "served.py" in line["error"]["stack"] or "testing" in line["error"]["stack"]


@pytest.mark.parametrize("text", ["hello", "rate limit", "bad request", "break", "crash"])
def test_S33_no_line_has_a_prompt_an_answer_or_a_key_at_any_level(logged, text):
    for path, body in requests_of(f"{text} {PROMPT}").values():
        post(logged, path, body)
    post(logged, "/v1/embeddings", {"model": "vectors", "input": PROMPT})
    httpx.get(
        f"{logged.url}/runs/{PROMPT}?q={PROMPT}", headers={"authorization": f"Bearer {PROMPT}"}
    )

    log = logged.stderr()

    assert PROMPT not in log
    assert logged.key not in log
    assert served.SECRET not in log
    assert "Hello there" not in log


def test_S34_the_access_log_has_a_line_per_request_with_the_template_of_its_route(logged):
    run = post(logged, "/runs", {"app": "chat", "input": "hi", "wait": True}).json()["run_id"]
    head = {"authorization": f"Bearer {logged.key}", "x-request-id": "look-1"}
    answer = httpx.get(f"{logged.url}/runs/{run}", headers=head)

    line = logged.line(request_id="look-1", logger="foldline.access")

    assert line["message"] == "GET /runs/{run_id}"
    assert (line["method"], line["route"], line["status"]) == ("GET", "/runs/{run_id}", 200)
    assert (line["bytes"], line["client"]) == (len(answer.content), "127.0.0.1")
    assert 0 < line["milliseconds"] < 30_000
    assert line["ending"] == "done"
    httpx.get(f"{logged.url}/nothing/{PROMPT}/here", headers={"x-request-id": "look-2"})
    assert logged.line(request_id="look-2")["route"] == "(none)"


def wait_for_line(logged: LoggedServer, **fields: Any) -> dict[str, Any]:
    import time

    end = time.monotonic() + 30
    while not any(fields.items() <= line.items() for line in logged.lines()):
        assert time.monotonic() < end, fields
        time.sleep(0.05)
    return logged.line(**fields)


@pytest.mark.parametrize(
    ("text", "ending"), [("count 5", "done"), ("break", "error"), ("slow minute access", "left")]
)
def test_S34_a_stream_is_logged_at_its_end_with_how_it_ended(logged, text, ending):
    id = f"stream-{ending}"
    head = {"authorization": f"Bearer {logged.key}", "x-request-id": id}
    path, body = requests_of(text, stream=True)["chat"]
    with httpx.stream("POST", f"{logged.url}{path}", json=body, headers=head, timeout=30) as stream:
        for _ in stream.iter_bytes():
            if ending == "left":
                break

    line = wait_for_line(logged, request_id=id, logger="foldline.access")

    assert line["ending"] == ending
    assert line["bytes"] > 0
    assert line["run_id"]


def test_S34_the_access_log_is_off_for_text_unless_it_is_switched_on(server, tmp_path):
    httpx.get(f"{server.url}/healthz")
    assert "/healthz" not in server.stderr()

    process = ServeProcess(tmp_path, options=("--access-log", "--no-trace")).start()
    try:
        httpx.get(f"{process.url}/healthz", headers={"x-request-id": "text-1"})
    finally:
        process.stop()
    lines = [line for line in process.stderr().splitlines() if "text-1" in line]
    assert len(lines) == 1
    assert lines[0].startswith("INFO foldline.access: method=GET route=/healthz status=200")


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        ("abc-DEF_1.2", True),
        ("a" * 64, True),
        ("a" * 65, False),
        ("", False),
        ("with space", False),
        ("line\nbreak", False),
        ("é", False),
        (None, False),
    ],
)
def test_S35_an_id_of_a_client_is_taken_if_it_has_the_form(given, is_taken):
    assert (request_id_of(given) == given) is is_taken
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", request_id_of(given))


def test_S35_the_id_is_in_the_answer_and_in_the_record_of_the_run(logged):
    body = {"app": "chat", "input": "hi", "wait": True}
    answer = post(logged, "/runs", body, **{"x-request-id": "mine-7"})

    assert answer.headers["x-request-id"] == "mine-7"
    shown = httpx.get(
        f"{logged.url}/runs/{answer.json()['run_id']}",
        headers={"authorization": f"Bearer {logged.key}"},
    )
    assert shown.json()["request_id"] == "mine-7"
    assert re.fullmatch(r"req_[0-9a-f]{32}", shown.headers["x-request-id"])


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/nothing", "/openapi.json"])
def test_S35_every_answer_has_an_id(path):
    answer = post_in_process(create_app(served.chat), path, None, "GET")

    assert answer.headers["x-request-id"]


# -- errors


PLACES: dict[str, Any] = {
    "chat": lambda body: body["error"],
    "responses": lambda body: body["error"],
    "messages": lambda body: body,
    "runs": lambda body: body["error"],
    "vercel": lambda body: body,
    "agui": lambda body: body["rawEvent"],
    "langgraph": lambda body: body["__error__"],
    "langserve": lambda body: body,
    "mcp": lambda body: body["result"]["_meta"],
}


@pytest.mark.parametrize("wire", PLACES)
def test_S48_an_error_has_the_ids_of_its_request_and_its_run(logged, wire):
    path, body = requests_of("rate limit")[wire]
    answer = post(logged, path, body, **{"x-request-id": f"limit-{wire}"})

    ids = PLACES[wire](answer.json())

    assert ids["request_id"] == f"limit-{wire}"
    head = {"authorization": f"Bearer {logged.key}"}
    run = httpx.get(f"{logged.url}/runs/{ids['run_id']}", headers=head).json()
    assert (run["status"], run["request_id"]) == ("error", f"limit-{wire}")


@pytest.mark.parametrize("wire", PLACES)
def test_S48_an_error_without_a_run_has_the_id_of_its_request(logged, wire):
    path, body = requests_of("hi")[wire]
    headers = {"x-request-id": f"no-{wire}", "authorization": "Bearer wrong"}
    answer = httpx.post(f"{logged.url}{path}", json=body, headers=headers)

    assert answer.status_code == 401
    found = answer.json()
    place = {"langgraph": lambda body: body, "mcp": lambda body: body["error"]["data"]}
    assert place.get(wire, PLACES[wire])(found)["request_id"] == f"no-{wire}"
    assert "run_id" not in answer.text


@pytest.mark.parametrize("wire", ["chat", "responses", "messages", "agui"])
def test_S48_the_error_event_of_a_stream_has_the_ids(logged, wire):
    path, body = requests_of("break", stream=True)[wire]
    answer = post(logged, path, body, **{"x-request-id": f"broken-{wire}"})

    assert answer.status_code == 200
    assert f'"request_id":"broken-{wire}"' in answer.text
    assert re.search(r'"run_id":"[0-9a-f-]{36}"', answer.text)


# -- the lines themselves


def record(message: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("foldline.serve", logging.WARNING, "f.py", 1, message, args, info)


def test_a_line_of_text_cannot_be_forged_by_a_break():
    line = TextLines().format(record("a %s", "b\nERROR foldline: forged"))

    assert line == "WARNING foldline.serve: a b\\nERROR foldline: forged"


def test_the_stack_has_the_causes_of_an_error_and_masks_keys():
    def fail() -> None:
        try:
            raise KeyError(f"sk-live-{'0123' * 4}")
        except KeyError as error:
            raise RuntimeError("no luck") from error

    with pytest.raises(RuntimeError) as caught:
        fail()
    for lines in (JsonLines(), TextLines()):
        text = lines.format(record("failed", error=caught.value))
        assert "RuntimeError: no luck" in text
        assert "KeyError: " in text
        assert "0123" * 4 not in text


def test_a_line_outside_of_a_request_has_no_ids():
    assert set(json.loads(JsonLines().format(record("x")))) == NAMES
    token = REQUEST.set(RequestFacts("r-1"))
    try:
        assert json.loads(JsonLines().format(record("x")))["request_id"] == "r-1"
    finally:
        REQUEST.reset(token)
