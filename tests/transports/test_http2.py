"""HTTP/2, where a transport has it: many calls on one connection, and a call left early resets its stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from foldline.exceptions import ModelTimeoutError, StreamInterruptedError
from foldline.transports import HttpOptions, PyreqwestTransport, Request, Timeouts, Transport
from tests.servers import Answer, FaultServer
from tests.transports.conftest import LIVE, Caller


@pytest.fixture(params=["pyreqwest", "httpx"])
def http2(request: pytest.FixtureRequest, fault_server: FaultServer) -> Iterator[Transport]:
    transport = LIVE[request.param](HttpOptions(http2=True, ca=fault_server.ca_pem))
    yield transport
    transport.close()


def test_an_answer_over_http2(http2: Transport, blocking: bool, fault_server: FaultServer) -> None:
    fault_server.script(
        "/a", Answer([b"hello ", b"world"], headers={"x-request-id": "r"}, pause=0.01)
    )
    caller = Caller(http2, blocking=blocking)
    assert caller.read(fault_server.http2_url + "/a", body=b'{"q": 1}') == (200, b"hello world")
    (seen,) = fault_server.requests()
    assert (seen.port, seen.json()) == ("http2", {"q": 1})


def test_many_calls_share_one_connection(http2: Transport, fault_server: FaultServer) -> None:
    fault_server.script("/a", Answer([b"x", ("wait", 0.05), b"y"]))

    async def read() -> bytes:
        async with http2.open(
            Request(url=fault_server.http2_url + "/a"), blocking=False
        ) as response:
            return await response.read()

    async def body() -> list[bytes]:
        return [await read(), *await asyncio.gather(*(read() for _ in range(20)))]

    assert asyncio.run(body()) == [b"xy"] * 21
    assert len({seen.connection for seen in fault_server.requests()}) == 1


def test_a_stream_left_early_is_reset_and_the_connection_kept(
    blocking: bool, fault_server: FaultServer
) -> None:
    """Only with pyreqwest: httpx2 tells the server nothing (docs/transports.md)."""
    http2 = PyreqwestTransport(HttpOptions(http2=True, ca=fault_server.ca_pem))
    fault_server.script("/a", Answer([b"x", ("stall", None)]))
    resets = fault_server.stats()["resets"]

    async def body() -> None:
        request = Request(url=fault_server.http2_url + "/a")
        async with (
            http2.open(request, blocking=blocking) as response,
            aclosing(response.chunks()) as chunks,
        ):
            async for _ in chunks:
                break
        async with http2.open(
            Request(url=fault_server.http2_url + "/ok"), blocking=blocking
        ) as response:
            assert await response.read() == b"ok"

    Caller(http2, blocking=blocking).run(body())
    until = time.monotonic() + 1
    while fault_server.stats()["resets"] == resets and time.monotonic() < until:
        time.sleep(0.01)
    first, second = fault_server.requests()
    assert fault_server.stats()["resets"] > resets
    assert first.connection == second.connection


def test_faults_over_http2(http2: Transport, blocking: bool, fault_server: FaultServer) -> None:
    caller = Caller(http2, blocking=blocking)
    url = fault_server.http2_url + "/a"
    for how in ("rst", "fin"):
        fault_server.script("/a", Answer([b"hello", ("wait", 0.05), (how, None)]))
        pieces, error = caller.stream(url)
        assert (pieces, type(error)) == ([b"hello"], StreamInterruptedError)
    fault_server.script("/a", Answer([b"hello", ("stall", None)]))
    pieces, error = caller.stream(url, timeouts=Timeouts(idle=0.2))
    assert pieces == [b"hello"]
    assert isinstance(error, ModelTimeoutError)
    assert error.phase == "idle"
