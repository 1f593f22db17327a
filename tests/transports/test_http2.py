"""HTTP/2: many calls on one connection, the clocks of each, and a call left early, of which the server learns."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import anyio
import pytest

from foldline._io.drive import drive
from foldline.exceptions import ModelTimeoutError, StreamInterruptedError
from foldline.transports import HttpOptions, Request, Timeouts, Transport, transport_for
from tests.servers import Answer, FaultServer
from tests.transports.conftest import Caller

pytestmark = pytest.mark.timing

STALLED = Answer([b"x", ("stall", None)])
SLOW = Answer([b"x", ("wait", 0.6), b"y"])


@pytest.fixture
def http2(fault_server: FaultServer) -> Iterator[Transport]:
    fault_server.drop_all()
    fault_server.wait_for_open(0)
    transport = transport_for(HttpOptions(http2=True, ca=fault_server.ca_pem))
    yield transport
    transport.close()


async def read(transport: Transport, url: str, *, blocking: bool, idle: float = 5) -> bytes:
    request = Request(url=url, timeouts=Timeouts(idle=idle))
    async with transport.open(request, blocking=blocking) as response:
        return await response.read()


def test_an_answer_over_http2(http2: Transport, blocking: bool, fault_server: FaultServer) -> None:
    fault_server.script(
        "/a", Answer([b"hello ", b"world"], headers={"x-request-id": "r"}, pause=0.01)
    )
    caller = Caller(http2, blocking=blocking)
    assert caller.read(fault_server.http2_url + "/a", body=b'{"q": 1}') == (200, b"hello world")
    (request,) = fault_server.requests()
    assert (request.port, request.json()) == ("http2", {"q": 1})


def test_no_log_shows_the_headers_of_a_request(
    http2: Transport, blocking: bool, fault_server: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The library that encodes headers logs them at level DEBUG, and in a form that is easily decoded."""
    caplog.set_level(logging.DEBUG)
    caller = Caller(http2, blocking=blocking)
    url = f"{fault_server.http2_url}/ok?key=canary-1"
    for _ in range(2):
        caller.read(url, headers={"x-api-key": "canary-2", "authorization": "Bearer canary-3"})
    assert "canary" not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith("hpack")]
    assert fault_server.requests()[0].headers["x-api-key"] == "canary-2"
    logging.getLogger("hpack.hpack").debug("others still log")
    assert "others still log" in caplog.text


def test_many_calls_share_one_connection(http2: Transport, fault_server: FaultServer) -> None:
    fault_server.script("/a", Answer([b"x", ("wait", 0.05), b"y"]))
    url = fault_server.http2_url + "/a"

    async def body() -> list[bytes]:
        first = await read(http2, url, blocking=False)
        return [
            first,
            *await asyncio.gather(*(read(http2, url, blocking=False) for _ in range(20))),
        ]

    assert asyncio.run(body()) == [b"xy"] * 21
    assert len({request.connection for request in fault_server.requests()}) == 1


def test_a_blocking_call_after_another_uses_its_connection(
    http2: Transport, fault_server: FaultServer
) -> None:
    for _ in range(3):
        assert drive(read(http2, fault_server.http2_url + "/ok", blocking=True)) == b"ok"
    assert len({request.connection for request in fault_server.requests()}) == 1


def test_more_blocking_calls_than_slots_wait_for_one_another(fault_server: FaultServer) -> None:
    url = fault_server.http2_url + "/a"
    fault_server.script("/a", Answer([b"x", ("wait", 0.02), b"y"]))
    transport = transport_for(HttpOptions(http2=True, ca=fault_server.ca_pem, max_connections=2))

    with ThreadPoolExecutor(8) as threads:
        answers = threads.map(lambda _: drive(read(transport, url, blocking=True)), range(24))
        assert set(answers) == {b"xy"}
    transport.close()
    assert len({request.connection for request in fault_server.requests()}) <= 2


def test_each_call_keeps_its_own_clock(
    http2: Transport, blocking: bool, fault_server: FaultServer
) -> None:
    """Of the engine alone, one thread's time limit ends the calls of the others, or waits for them."""
    fault_server.script("/stalled", STALLED)
    fault_server.script("/slow", SLOW)
    limits = {"/stalled": 0.2, "/slow": 5.0}

    async def timed(path: str) -> tuple[object, float]:
        start = time.monotonic()
        url = fault_server.http2_url + path
        try:
            outcome: object = await read(http2, url, blocking=blocking, idle=limits[path])
        except ModelTimeoutError as error:
            outcome = error.phase
        return outcome, time.monotonic() - start

    async def together() -> list[tuple[object, float]]:
        await read(http2, fault_server.http2_url + "/ok", blocking=False)
        return await asyncio.gather(*(timed(path) for path in paths))

    for paths in (["/slow", "/stalled"], ["/stalled", "/slow"]):
        if blocking:
            with ThreadPoolExecutor(2) as threads:
                results = [*threads.map(lambda path: drive(timed(path)), paths)]
        else:
            results = asyncio.run(together())
        outcomes = dict(zip(paths, results, strict=True))
        assert outcomes["/slow"][0] == b"xy"
        assert outcomes["/stalled"][0] == "idle"
        assert outcomes["/stalled"][1] < 0.5


@pytest.mark.parametrize(
    "answer", [STALLED, Answer(before=[("stall", None)])], ids=["body", "headers"]
)
def test_the_server_learns_that_a_call_was_left_early(
    http2: Transport, blocking: bool, answer: Answer, fault_server: FaultServer
) -> None:
    fault_server.script("/a", answer)
    request = Request(url=fault_server.http2_url + "/a", timeouts=Timeouts(first_byte=0.2))

    async def body() -> int:
        try:
            async with (
                http2.open(request, blocking=blocking) as response,
                aclosing(response.chunks()) as chunks,
            ):
                async for _ in chunks:
                    break
        except ModelTimeoutError:
            assert answer is not STALLED
        open_count = fault_server.wait_for_open(0)
        url = fault_server.http2_url + "/ok"
        assert await read(http2, url, blocking=blocking) == b"ok"
        return open_count

    assert Caller(http2, blocking=blocking).run(body()) == 0


def test_a_call_left_early_does_not_disturb_the_others(
    http2: Transport, fault_server: FaultServer
) -> None:
    """Its connection takes no further calls, and is closed after the last."""
    fault_server.script("/stalled", STALLED)
    fault_server.script("/slow", SLOW)
    base = fault_server.http2_url

    async def body() -> tuple[bytes, bytes, int]:
        await read(http2, base + "/ok", blocking=False)
        slow = asyncio.create_task(read(http2, base + "/slow", blocking=False))
        stalled = asyncio.create_task(read(http2, base + "/stalled", blocking=False))
        while fault_server.hits("/stalled") + fault_server.hits("/slow") < 2:
            await asyncio.sleep(0.01)
        stalled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stalled
        after = await read(http2, base + "/ok", blocking=False)
        answer = await slow
        return after, answer, await asyncio.to_thread(fault_server.wait_for_open, 1)

    assert asyncio.run(body()) == (b"ok", b"xy", 1)
    first, slow, stalled, after = fault_server.requests()
    assert first.connection == slow.connection == stalled.connection != after.connection


def test_cancelled_by_a_scope_of_anyio_the_connection_is_closed(
    http2: Transport, fault_server: FaultServer
) -> None:
    fault_server.script("/a", STALLED)

    async def body() -> tuple[bool, int]:
        with anyio.move_on_after(0.2) as scope:
            await read(http2, fault_server.http2_url + "/a", blocking=False)
        return scope.cancelled_caught, await asyncio.to_thread(fault_server.wait_for_open, 0)

    assert asyncio.run(body()) == (True, 0)


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
