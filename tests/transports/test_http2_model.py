"""A model over HTTP/2: what is asked again, what is kept, and that the program can be stopped."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from hyperframe.frame import GoAwayFrame, RstStreamFrame

from foldline.exceptions import (
    MalformedStreamError,
    ModelConnectionError,
    ModelError,
    StreamInterruptedError,
)
from foldline.providers.openai import ChatOpenAI
from tests.faults.clock import FakeClock
from tests.servers import Answer, FaultServer
from tests.servers.hostile_http2 import OK, Behaviour, HostileServer, Peer
from tests.servers.vendors.openai import completions
from tests.servers.vendors.replies import TEXT


async def _astream(model: ChatOpenAI) -> str:
    return "".join([piece.text async for piece in model.astream("Hi")])


ASKS: dict[str, Callable[[ChatOpenAI], str]] = {
    "invoke": lambda model: model.invoke("Hi").text,
    "stream": lambda model: "".join(piece.text for piece in model.stream("Hi")),
    "ainvoke": lambda model: asyncio.run(model.ainvoke("Hi")).text,
    "astream": lambda model: asyncio.run(_astream(model)),
}


@pytest.fixture(params=ASKS)
def ask(request: pytest.FixtureRequest) -> Callable[[ChatOpenAI], str]:
    return ASKS[request.param]


def model_of(server: HostileServer) -> ChatOpenAI:
    http = {"http2": True, "ca": server.ca_pem}
    return ChatOpenAI(model="m", api_key="k", base_url=f"{server.url}/v1", http=http)


def good(peer: Peer, stream: int, *, pause: Callable[[], object] = bool) -> None:
    """Answer with two halves and a pause."""
    kind, body = completions(json.loads(peer.server.asked[-1].body))
    peer.headers(stream, (*OK, ("content-type", kind)))
    half = body.index(b"done")
    peer.data(stream, body[:half])
    pause()
    peer.data(stream, body[half:], end=True)


def first_and_then_good(first: Callable[[Peer, int], object]) -> Behaviour:
    """Treat the first request of all specially."""

    def behave(peer: Peer) -> None:
        while True:
            stream = peer.request()
            if len(peer.server.asked) > 1:
                good(peer, stream)
            elif first(peer, stream) == "close":
                return

    return behave


RETRIED: dict[str, Callable[[Peer, int], object]] = {
    "refused": lambda peer, stream: peer.send(RstStreamFrame(stream, error_code=7)),
    "internal error": lambda peer, stream: peer.send(RstStreamFrame(stream, error_code=2)),
    "goaway": lambda peer, stream: peer.send(GoAwayFrame(0, last_stream_id=0)),
    "goaway with an error": lambda peer, stream: peer.send(
        GoAwayFrame(0, last_stream_id=stream, error_code=11)
    ),
    "closed": lambda peer, stream: "close",
    "503": lambda peer, stream: peer.answer(stream, b"busy", headers=((":status", "503"),)),
}


@pytest.mark.parametrize("name", RETRIED)
def test_a_failure_before_the_answer_is_asked_again_once(
    name: str, ask: Callable[[ChatOpenAI], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeClock().install(monkeypatch)
    with HostileServer(first_and_then_good(RETRIED[name])) as server:
        assert ask(model_of(server)) == TEXT
        assert len(server.asked) == 2


def test_what_cannot_succeed_is_asked_once(ask: Callable[[ChatOpenAI], str]) -> None:
    def want_http1(peer: Peer, stream: int) -> None:
        peer.send(RstStreamFrame(stream, error_code=13))

    with HostileServer(first_and_then_good(want_http1)) as server:
        with pytest.raises(ModelConnectionError, match="http2=False"):
            ask(model_of(server))
        assert len(server.asked) == 1
    no_status = (("content-type", "text/event-stream"),)
    with HostileServer(lambda peer: peer.answer(peer.request(), b"", headers=no_status)) as server:
        with pytest.raises(MalformedStreamError, match="status"):
            ask(model_of(server))
        assert len(server.asked) == 1


def test_an_answer_is_finished_after_goaway(ask: Callable[[ChatOpenAI], str]) -> None:
    def leave(peer: Peer, stream: int) -> None:
        def goaway() -> None:
            peer.send(GoAwayFrame(0, last_stream_id=stream))
            time.sleep(0.02)

        good(peer, stream, pause=goaway)

    with HostileServer(first_and_then_good(leave)) as server:
        model = model_of(server)
        assert [ask(model), ask(model)] == [TEXT, TEXT]
        assert len(server.asked) == 2
        assert len(server.peers) == 2


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_an_answer_that_breaks_off_keeps_its_part(way: str) -> None:
    def break_off(peer: Peer, stream: int) -> None:
        def reset() -> None:
            peer.send(RstStreamFrame(stream, error_code=2))
            peer.stay()

        good(peer, stream, pause=reset)

    with HostileServer(first_and_then_good(break_off)) as server:
        with pytest.raises(StreamInterruptedError) as raised:
            ASKS[way](model_of(server))
        error: ModelError = raised.value
        assert error.partial is not None
        assert TEXT.startswith(error.partial.text)
        assert error.partial.text
        assert len(server.asked) == 1


PROGRAM = """
import asyncio, sys
from foldline._io.drive import drive
from foldline.transports import HttpOptions, Request
from foldline.transports.httpx import HttpxTransport

url, ca, way = sys.argv[1:]
transport = HttpxTransport(HttpOptions(http2=True, ca=ca))

async def read(blocking):
    async with transport.open(Request(url=url), blocking=blocking) as response:
        async for _ in response.chunks():
            print("got", flush=True)

drive(read(True)) if way == "blocking" else asyncio.run(read(False))
"""


@pytest.mark.timing
@pytest.mark.parametrize("way", ["blocking", "async"])
def test_F_C13_ctrl_c_ends_a_stalled_stream_at_once(
    way: str, fault_server: FaultServer, tmp_path: Any
) -> None:
    fault_server.script("/a", Answer([b"hello", ("stall", None)]))
    (tmp_path / "ca.pem").write_bytes(fault_server.ca_pem)
    url = fault_server.http2_url + "/a"
    program = subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", PROGRAM, url, str(tmp_path / "ca.pem"), way],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert program.stdout is not None
    assert program.stdout.readline() == "got\n"
    time.sleep(0.1)
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=5)
    assert errors.strip().endswith("KeyboardInterrupt")
    assert "ResourceWarning" not in errors
    assert "never retrieved" not in errors
    assert fault_server.wait_for_open(0) == 0
