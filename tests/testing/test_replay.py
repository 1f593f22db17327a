"""Recording and replaying: what is recorded, what is redacted, and the error for a wrong request."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from foldline._io.drive import drive
from foldline.exceptions import ModelTimeoutError, StreamInterruptedError, UsageError
from foldline.testing.replay import RecordingTransport, ReplayTransport
from foldline.transports import NativeTransport, Request, Timeouts, Transport
from tests.servers import Answer, FaultServer, sse_answer
from tests.servers.fixtures import fault_server, fault_server_process  # noqa: F401

pytestmark = pytest.mark.timing


@pytest.fixture(params=[True, False], ids=["blocking", "async"])
def blocking(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def ask(transport: Transport, url: str, body: Any, *, blocking: bool, **fields: Any) -> bytes:
    async def call() -> bytes:
        request = Request(url=url, body=json.dumps(body).encode(), **fields)
        async with transport.open(request, blocking=blocking) as response:
            return await response.read()

    return drive(call()) if blocking else asyncio.run(call())


def test_a_recording_answers_like_the_server(
    fault_server: FaultServer, blocking: bool, tmp_path: Path
) -> None:
    url = fault_server.script(
        "/v1", sse_answer([{"a": 1}, {"b": "é"}], done="[DONE]"), Answer(b"\xff\x00")
    )
    path = tmp_path / "deep" / "calls.jsonl"
    recorder = RecordingTransport(NativeTransport(), path)
    live = [ask(recorder, url, {"n": n}, blocking=blocking) for n in (1, 2)]
    recorder.close()

    replay = ReplayTransport(path)
    replayed = [
        ask(replay, "https://elsewhere.example/v1", {"n": n}, blocking=blocking) for n in (2, 1)
    ]
    assert replayed == live[::-1]
    assert [json.loads(request.body) for request in replay.requests] == [{"n": 2}, {"n": 1}]


def test_secrets_are_struck_out(fault_server: FaultServer, tmp_path: Path) -> None:
    url = fault_server.script(
        "/v1", Answer(b"x", headers={"Set-Cookie": "canary-3", "X-Request-Id": "r"})
    )
    path = tmp_path / "calls.jsonl"
    headers = {
        "Authorization": "Bearer canary-1",
        "x-api-key": "canary-1",
        "X-Goog-Api-Key": "canary-1",
        "X-V": "2",
    }
    recorder = RecordingTransport(NativeTransport(), path)
    ask(recorder, url + "?alt=sse&key=canary-2", {}, blocking=True, headers=headers)
    recorder.close()
    text = path.read_text()
    assert "canary" not in text
    line = json.loads(text)
    assert line["request"]["headers"]["x-v"] == "2"
    assert line["request"]["url"].endswith("?alt=sse&key=***")
    assert line["response"]["headers"]["x-request-id"] == "r"


def test_faults_are_recorded_and_replayed(
    fault_server: FaultServer, blocking: bool, tmp_path: Path
) -> None:
    url = fault_server.script("/cut", Answer([b"hello ", b"world"], framing="chunked").cut(8))
    silent = fault_server.script("/silent", Answer(before=[("stall", None)]))
    path = tmp_path / "calls.jsonl"
    recorder = RecordingTransport(NativeTransport(), path)
    for transport in (recorder, ReplayTransport(path) if path.exists() else None):
        transport = transport or ReplayTransport(path)
        with pytest.raises(StreamInterruptedError, match="broke off"):
            ask(transport, url, {}, blocking=blocking)
        with pytest.raises(ModelTimeoutError) as excinfo:
            ask(transport, silent, {}, blocking=blocking, timeouts=Timeouts(first_byte=0.1))
        assert excinfo.value.phase == "first_byte"


def test_a_request_that_does_not_match_is_shown_with_its_difference(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(recorded({"model": "a", "messages": ["hi"]}))
    with pytest.raises(UsageError) as excinfo:
        ask(
            ReplayTransport(path),
            "http://model.example/v1",
            {"model": "b", "messages": ["hi"]},
            blocking=True,
        )
    error_text = str(excinfo.value)
    assert '-  "model": "a"' in error_text
    assert '+  "model": "b"' in error_text
    assert "canary" not in error_text


def test_the_order_of_keys_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(recorded({"a": 1, "b": 2}))
    assert (
        ask(ReplayTransport(path), "http://model.example/v1", {"b": 2, "a": 1}, blocking=True)
        == b"ok"
    )


def test_each_line_answers_once_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(recorded({}) + "\n" + recorded({}, "second"))
    once, always = ReplayTransport(path), ReplayTransport(path, repeat=True)
    url = "http://model.example/v1"
    assert [ask(always, url, {}, blocking=True) for _ in range(3)] == [b"ok", b"second", b"second"]
    assert [ask(once, url, {}, blocking=True) for _ in range(2)] == [b"ok", b"second"]
    with pytest.raises(UsageError, match="repeat=True"):
        ask(once, url, {}, blocking=True)


def test_pace_waits_as_the_server_did(tmp_path: Path, blocking: bool) -> None:
    path = tmp_path / "calls.jsonl"
    line = json.loads(recorded({}))
    line["response"]["chunks"] = [[0.1, "a"], [0.3, "b"]]
    path.write_text(json.dumps(line))
    start = time.monotonic()
    assert (
        ask(ReplayTransport(path, pace=1.0), "http://model.example/v1", {}, blocking=blocking)
        == b"ab"
    )
    assert time.monotonic() - start >= 0.3


@pytest.mark.parametrize("text", ["not json", "[]", '{"request": {}}'])
def test_a_broken_recording_says_which_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match="not a recorded call"):
        ReplayTransport(path)
    with pytest.raises(UsageError, match="the recording cannot be read"):
        ReplayTransport(tmp_path / "missing.jsonl")


def recorded(body: Any, text: str = "ok") -> str:
    request = {"method": "POST", "url": "https://h/v1", "headers": {}, "body": body}
    response = {"status": 200, "headers": {}, "first_byte": 0.0, "chunks": [[0.0, text]]}
    return json.dumps({"request": request, "response": response})
