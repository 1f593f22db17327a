"""However a call ends, its connection is freed at once: sockets counted on both sides, garbage collection off."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from foldline._io.drive import drive_each
from foldline.exceptions import ModelError, StreamClosedError
from foldline.transports import (
    HttpOptions,
    NativeTransport,
    Request,
    Transport,
)
from tests.conftest import open_files
from tests.servers import Answer, FaultServer
from tests.transports.conftest import LIVE, Caller

pytestmark = pytest.mark.timing

TIMES = 30
STALLED = Answer([b"hello", ("stall", None)], framing="chunked")
SILENT = Answer(before=[("stall", None)])


@pytest.fixture(autouse=True)
def quiet(fault_server: FaultServer) -> Iterator[None]:
    """No collector to help, and no connection left of an earlier test."""
    fault_server.drop_all()
    fault_server.wait_for_open(0)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def sockets() -> int:
    return sum(target.startswith("socket:") for target in open_files().values())


async def pieces_of(transport: Transport, url: str, *, blocking: bool) -> Any:
    async with (
        transport.open(Request(url=url), blocking=blocking) as response,
        aclosing(response.chunks()) as chunks,
    ):
        async for chunk in chunks:
            yield chunk


def freed(server: FaultServer, before: int) -> bool:
    until = time.monotonic() + 1
    while server.wait_for_open(0, until - time.monotonic()) or sockets() > before:
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("how", ["break", "close", "close twice", "drop"])
def test_F_C01_a_blocking_stream_left_early_frees_its_socket(
    live: Callable[..., Transport], fault_server: FaultServer, how: str
) -> None:
    url, transport = fault_server.script("/a", STALLED), live()
    before, good = sockets(), 0
    for _ in range(TIMES):
        stream = drive_each(pieces_of(transport, url, blocking=True))
        if how == "break":
            for _ in stream:
                break
        else:
            next(stream)
        if how != "drop":
            stream.close()
        if how == "close twice":
            stream.close()
        del stream
        good += freed(fault_server, before)
    assert good == TIMES


@pytest.mark.slow
def test_F_C02_an_async_stream_left_early_frees_its_socket(
    live: Callable[..., Transport], fault_server: FaultServer
) -> None:
    url, transport = fault_server.script("/a", STALLED), live()

    async def body() -> int:
        good = 0
        await anext(once := pieces_of(transport, url, blocking=False))
        await once.aclose()
        before = sockets()
        for _ in range(TIMES):
            async with aclosing(pieces_of(transport, url, blocking=False)) as stream:
                async for _ in stream:
                    break
            await asyncio.sleep(0)
            good += await asyncio.to_thread(freed, fault_server, before)
        return good

    assert asyncio.run(body()) == TIMES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "answer"),
    [(kind, answer) for answer in (STALLED, SILENT) for kind in LIVE],
    ids=["native-body", "httpx-body", "native-headers", "httpx-headers"],
)
def test_F_C03_a_cancelled_task_frees_its_socket(
    kind: str, fault_server: FaultServer, answer: Answer
) -> None:
    url, transport = fault_server.script("/a", answer), LIVE[kind](None)

    async def read() -> None:
        async for _ in pieces_of(transport, url, blocking=False):
            pass

    async def body() -> int:
        good = 0
        before = None
        for turn in range(TIMES + 1):
            task = asyncio.create_task(read())
            while fault_server.open_connections() == 0:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.005)
            task.cancel()
            if turn % 2:
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            if before is None:
                await asyncio.to_thread(fault_server.wait_for_open, 0)
                before = sockets()
            good += await asyncio.to_thread(freed, fault_server, before)
        return good

    assert asyncio.run(body()) >= TIMES


@pytest.mark.slow
def test_F_C03_cancelled_after_any_number_of_steps_the_pool_still_works(
    live: Callable[..., Transport], fault_server: FaultServer
) -> None:
    url, transport = (
        fault_server.script("/a", Answer([b"a", b"b", b"c"], framing="chunked", pause=0.001)),
        live(),
    )

    async def read() -> bytes:
        async with transport.open(Request(url=url, body=b"{}"), blocking=False) as response:
            return await response.read()

    async def body() -> None:
        lost_count = 0
        for steps in range(40):
            task = asyncio.create_task(read())
            for _ in range(steps):
                await asyncio.sleep(0)
            was_done = task.done()
            task.cancel()
            finished, _ = await asyncio.wait([task], timeout=2)
            lost_count += not finished or (not was_done and not task.cancelled())
            assert await read() == b"abc"
        assert lost_count == 0
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(body())


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_F_C03_cancelled_at_every_step_no_socket_is_forgotten(
    fault_server: FaultServer, secure: bool
) -> None:
    """Also while connecting, where asyncio's own `create_connection` forgets one."""
    fault_server.script("/a", SILENT)
    url = (fault_server.https_url if secure else fault_server.url) + "/a"
    transport = NativeTransport(HttpOptions(ca=fault_server.ca_pem))

    async def read() -> None:
        async with transport.open(Request(url=url, body=b"{}"), blocking=False) as response:
            await response.read()

    async def body() -> int:
        lost_count = 0
        for steps in [*range(60)] * 3:
            task = asyncio.create_task(read())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=2)
            lost_count += not task.cancelled()
        return lost_count

    before = sockets()
    assert asyncio.run(body()) == 0
    assert fault_server.wait_for_open(0) == 0
    assert sockets() == before


@pytest.mark.slow
def test_F_C02_closing_from_another_task_or_thread_wakes_the_reader(
    fault_server: FaultServer,
) -> None:
    url, transport = fault_server.script("/a", STALLED), NativeTransport()

    async def reader(response: Any) -> str:
        try:
            await response.read()
        except StreamClosedError:
            return "closed"
        return "read"

    async def body() -> str:
        async with transport.open(Request(url=url), blocking=False) as response:
            task = asyncio.create_task(reader(response))
            await asyncio.sleep(0.05)
            await response.close()
            return await asyncio.wait_for(task, 1)

    assert asyncio.run(body()) == "closed"

    def close_soon(response: Any) -> None:
        time.sleep(0.1)
        Caller(transport, blocking=True).run(response.close())

    async def in_thread() -> str:
        async with transport.open(Request(url=url), blocking=True) as response:
            threading.Thread(target=close_soon, args=(response,)).start()
            return await reader(response)

    assert Caller(transport, blocking=True).run(in_thread()) == "closed"


@pytest.mark.slow
def test_E7_threads_and_files_are_back_after_every_outcome(
    live: Callable[..., Transport], blocking: bool, fault_server: FaultServer
) -> None:
    caller = Caller(live(), blocking=blocking)
    urls = [
        fault_server.script("/ok2", Answer([b"a", b"b"], framing="chunked")),
        fault_server.script("/cut", Answer([b"abc", b"def"], framing="chunked").cut(4, "rst")),
        fault_server.script("/gone", Answer(before=[("fin", None)])),
        fault_server.script("/close", Answer(b"abc", framing="close")),
        "http://127.0.0.1:1/",
    ]
    for url in urls:
        caller.stream(url)
    caller.transport.close()
    threads, files = threading.active_count(), sockets()
    for _ in range(5):
        for url in urls:
            caller.stream(url)
    caller.transport.close()
    assert fault_server.wait_for_open(0) == 0
    until = time.monotonic() + 1
    while (threading.active_count() > threads or sockets() > files) and time.monotonic() < until:
        time.sleep(0.01)
    assert (threading.active_count(), sockets()) == (threads, files)


@pytest.mark.slow
def test_slow_reader_of_a_fast_server_holds_little_memory(
    live: Callable[..., Transport], blocking: bool, fault_server: FaultServer
) -> None:
    """F-C09: the server is held back, not buffered."""
    url = fault_server.script(
        "/flood", Answer([("repeat", [1000, 0, b"x" * 200_000])], framing="chunked")
    )
    caller = Caller(live(), blocking=blocking)

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    async def body() -> int:
        async with caller.open(Request(url=url)) as response, aclosing(response.chunks()) as chunks:
            await anext(chunks)
            before = resident()
            await asyncio.sleep(0.5) if not caller.blocking else time.sleep(0.5)
            return resident() - before

    assert caller.run(body()) < 20_000_000


@pytest.mark.slow
def test_a_stream_closed_by_a_failing_reader_is_freed(
    live_caller: Caller, fault_server: FaultServer
) -> None:
    url = fault_server.script("/a", STALLED)

    async def body() -> None:
        async with live_caller.open(Request(url=url)) as response:
            async for _ in response.chunks():
                raise ModelError("the reader gave up")

    with pytest.raises(ModelError, match="gave up"):
        live_caller.run(body())
    assert fault_server.wait_for_open(0) == 0
