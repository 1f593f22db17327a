"""The two ways to wait that tools brought: a body bounded in time, and a loop where an async client lives."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from foldline._io import ASYNC, BLOCKING, OutOfTime, PrivateLoop
from foldline._io.drive import drive

pytestmark = pytest.mark.timing

WHO: ContextVar[str] = ContextVar("who", default="nobody")


def run(mode: str, body: Any) -> Any:
    return drive(body(BLOCKING)) if mode == "sync" else asyncio.run(body(ASYNC))


modes = pytest.mark.parametrize("mode", ["sync", "async"])


@modes
def test_a_body_in_time_gives_its_value_and_sees_the_context(mode):
    async def who() -> str:
        return WHO.get()

    WHO.set("me")
    assert run(mode, lambda io: io.bounded(5, who())) == "me"


@modes
def test_a_body_that_takes_too_long_is_given_up(mode):
    release = threading.Event()
    start = time.perf_counter()

    async def slow(io: Any) -> None:
        await io.call(release.wait, 10)

    with pytest.raises(OutOfTime, match=r"took longer than 0\.05 s"):
        run(mode, lambda io: io.bounded(0.05, slow(io)))
    release.set()
    assert time.perf_counter() - start < 5


@modes
def test_a_timeout_of_the_bodys_own_passes(mode):
    async def fails() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        run(mode, lambda io: io.bounded(5, fails()))


class Resident:
    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.threads: set[int] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Resident]:
        self.opened += 1
        await asyncio.sleep(0.01)
        try:
            yield self
        finally:
            self.closed += 1

    async def where(self) -> int:
        self.threads.add(threading.get_ident())
        return threading.get_ident()


def test_what_lives_there_is_opened_once_and_closed_at_the_end(no_leaks):
    loop, resident = PrivateLoop(), Resident()

    async def use() -> int:
        return await loop.use(resident.open, Resident.where, blocking=False)

    async def many() -> list[int]:
        return await asyncio.gather(*(use() for _ in range(5)))

    assert len({*asyncio.run(many()), *asyncio.run(many())}) == 1
    drive(loop.use(resident.open, Resident.where, blocking=True))
    assert threading.get_ident() not in resident.threads
    loop.close()
    loop.close()

    assert (resident.opened, resident.closed) == (1, 1)
    assert not loop.is_running
    with pytest.raises(ConnectionAbortedError, match="closed"):
        drive(loop.use(resident.open, Resident.where, blocking=True))


def test_one_that_fails_to_open_is_tried_again(no_leaks):
    loop, tries = PrivateLoop(), []

    @asynccontextmanager
    async def open_at_second() -> AsyncIterator[str]:
        tries.append(1)
        if len(tries) < 2:
            raise OSError("not yet")
        yield "open"

    async def same(value: str) -> str:
        return value

    with pytest.raises(OSError, match="not yet"):
        drive(loop.use(open_at_second, same, blocking=True))
    assert drive(loop.use(open_at_second, same, blocking=True)) == "open"
    loop.close()


@modes
def test_one_that_takes_too_long_to_open_is_left_to_end_by_itself(mode, no_leaks):
    loop, steps = PrivateLoop(), []

    @asynccontextmanager
    async def open_never() -> AsyncIterator[str]:
        try:
            await asyncio.sleep(60)
            yield "open"
        finally:
            await asyncio.sleep(0.5)  # a process that is slow to end
            steps.append("ended")

    async def use(io: Any) -> None:
        async def body(_: str) -> None: ...

        await loop.use(open_never, body, blocking=io.blocking, enter_seconds=0.05)

    start = time.perf_counter()
    with pytest.raises(OutOfTime, match=r"took longer than 0\.05 s"):
        run(mode, use)
    assert time.perf_counter() - start < 0.4
    assert steps == []
    loop.close()
    assert steps == ["ended"]


@pytest.mark.slow
@modes
def test_closing_fails_what_runs_there(mode, no_leaks):
    loop = PrivateLoop()

    async def forever(io: Any) -> None:
        closing = threading.Timer(0.1, loop.close)
        closing.start()
        await loop.run(asyncio.sleep(60), blocking=io.blocking)

    with pytest.raises(ConnectionAbortedError, match="closed while in use"):
        run(mode, forever)


def test_cancelling_the_one_who_waits_cancels_there_too(no_leaks):
    loop, ended_event = PrivateLoop(), threading.Event()

    async def body() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended_event.set()

    async def cancel() -> None:
        task = asyncio.ensure_future(loop.run(body(), blocking=False))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ended_event.wait(5)
    loop.close()
