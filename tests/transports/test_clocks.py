"""Clocks of live transports: what restarts them and what does not."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import pytest

from foldline.exceptions import LimitExceededError, ModelTimeoutError, UsageError
from foldline.transports import NativeTransport, Request, SizeLimits, Timeouts
from tests.servers import Answer, FaultServer
from tests.transports.conftest import Caller

pytestmark = pytest.mark.timing

PINGS = Answer([b"data: 1\n\n", ("repeat", [500, 0.02, b": ping\n\n"])], framing="chunked")


def test_F_T08_pings_do_not_restart_the_clock_of_progress(
    live_caller: Caller, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", PINGS)
    came: list[bytes] = []

    async def body() -> None:
        request = Request(url=url, timeouts=Timeouts(idle=0.3))
        async with (
            live_caller.open(request) as response,
            aclosing(response.chunks(progress_only=True)) as chunks,
        ):
            async for chunk in chunks:
                came.append(chunk)
                if b"data:" in chunk:
                    response.progress()

    start = time.monotonic()
    with pytest.raises(ModelTimeoutError) as excinfo:
        live_caller.run(body())
    assert excinfo.value.phase == "idle"
    assert 0.25 < time.monotonic() - start < 1.5
    assert b": ping" in b"".join(came)


@pytest.mark.parametrize("is_head", [False, True], ids=["body", "1xx heads"])
def test_F_T09_a_flood_does_not_outrun_the_deadline(
    live_caller: Caller, fault_server: FaultServer, is_head: bool
) -> None:
    head = b"HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n"
    flood = ("repeat", [50_000, 0, (head if is_head else b": ping\n\n") * 8000])
    answer = Answer([flood], framing="raw" if is_head else "chunked")
    url = fault_server.script("/a", answer)

    async def body() -> None:
        request = Request(url=url, timeouts=Timeouts(first_byte=0.4, total=0.4, idle=30))
        async with (
            live_caller.open(request) as response,
            aclosing(response.chunks()) as chunks,
        ):
            async for _ in chunks:
                assert time.monotonic() - began < 3, "the deadline has passed long ago"

    async def limited() -> None:
        if live_caller.blocking:
            await body()
        else:
            await asyncio.wait_for(body(), 5)

    began = time.monotonic()
    with pytest.raises(ModelTimeoutError) as caught:
        live_caller.run(limited())
    assert caught.value.phase in ("total", "first_byte")


def test_F_T08_a_flood_of_pings_ends_at_the_limit(
    live_caller: Caller, fault_server: FaultServer
) -> None:
    flood = ("repeat", [1_000, 0, b": ping\n\n" * 8000])
    url = fault_server.script("/a", Answer([b"data: 1\n\n", flood], framing="chunked"))
    size = 0

    async def body() -> None:
        nonlocal size
        request = Request(url=url, timeouts=Timeouts(idle=30), limits=SizeLimits(message=1 << 20))
        async with (
            live_caller.open(request) as response,
            aclosing(response.chunks(progress_only=True)) as chunks,
        ):
            async for chunk in chunks:
                size += len(chunk)
                if size < 3 << 20:
                    response.progress()

    with pytest.raises(LimitExceededError, match="message"):
        live_caller.run(body())
    assert 3 << 20 < size < 5 << 20


def test_progress_keeps_a_slow_stream_alive(live_caller: Caller, fault_server: FaultServer) -> None:
    url = fault_server.script("/a", Answer([("repeat", [12, 0.05, b"x"])], framing="chunked"))

    async def body() -> int:
        request = Request(url=url, timeouts=Timeouts(idle=0.3))
        count = 0
        async with (
            live_caller.open(request) as response,
            aclosing(response.chunks(progress_only=True)) as chunks,
        ):
            async for chunk in chunks:
                count += len(chunk)
                response.progress()
        return count

    assert live_caller.run(body()) == 12


def test_a_slow_reader_is_not_an_idle_server(
    live_caller: Caller, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", Answer([b"one", ("wait", 0.1), b"two"], framing="chunked"))

    async def body() -> bytes:
        read = b""
        async with (
            live_caller.open(Request(url=url, timeouts=Timeouts(idle=0.2))) as response,
            aclosing(response.chunks(progress_only=True)) as chunks,
        ):
            async for chunk in chunks:
                read += chunk
                if live_caller.blocking:
                    time.sleep(0.4)
                else:
                    await asyncio.sleep(0.4)
        return read

    assert live_caller.run(body()) == b"onetwo"


def test_no_timeouts_means_none(live_caller: Caller, fault_server: FaultServer) -> None:
    url = fault_server.script("/a", Answer([b"x", ("wait", 0.2), b"y"], framing="chunked"))
    never = Timeouts(connect=None, first_byte=None, idle=None, total=None)
    assert live_caller.read(url, timeouts=never) == (200, b"xy")


def test_a_timeout_of_nothing_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="connect=0"):
        Timeouts(connect=0)


def test_a_timeout_frees_the_connection_at_once(
    live_caller: Caller, fault_server: FaultServer
) -> None:
    fault_server.wait_for_open(0)
    body = Answer([b"x", ("stall", None)], framing="chunked")
    for answer in (body, Answer(before=[("stall", None)])):
        url = fault_server.script("/a", answer)
        live_caller.stream(url, timeouts=Timeouts(first_byte=0.2, idle=0.2))
        assert fault_server.wait_for_open(0) == 0


def test_a_cancelled_task_is_cancelled_even_when_its_clock_rings_too(
    fault_server: FaultServer,
) -> None:
    url = fault_server.script("/a", Answer([b"x", ("stall", None)], framing="chunked"))
    transport = NativeTransport()

    async def read() -> None:
        async with transport.open(
            Request(url=url, timeouts=Timeouts(idle=0.1)), blocking=False
        ) as response:
            await response.read()

    async def body() -> None:
        for wait in (0.08, 0.09, 0.1, 0.11):
            task = asyncio.create_task(read())
            await asyncio.sleep(wait)
            was_over = task.done()
            task.cancel()
            with pytest.raises((asyncio.CancelledError, ModelTimeoutError)) as excinfo:
                await task
            assert was_over or excinfo.type is asyncio.CancelledError

    asyncio.run(body())
