"""From a callback to a stream: sync and async, with back pressure, errors and an early end."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from foldline._io import ASYNC, BLOCKING
from foldline._io.drive import drive_each
from foldline.exceptions import ModelAPIError
from foldline.providers.local._chunk_stream import MAX_QUEUED, ChunkStream

pytestmark = [pytest.mark.timing, pytest.mark.slow]


def read(feed, mode, limit=None):
    """Read a feed to its end, or the first `limit` items and then leave."""
    if mode == "sync":
        stream = drive_each(feed.chunks(BLOCKING))
        items = [item for item, _ in zip(stream, range(limit or 10**6), strict=False)]
        stream.close()
        return items

    async def body():
        stream, items = feed.chunks(ASYNC), []
        async for item in stream:
            items.append(item)
            if len(items) == limit:
                break
        await stream.aclose()
        return items

    return asyncio.run(body())


def test_chunks_come_in_order_and_end(call, no_leaks):
    feed = ChunkStream(lambda emit: [emit(number) for number in range(500)])

    assert read(feed, call.mode) == list(range(500))


def test_an_error_of_the_producer_is_raised_after_what_it_said(call, no_leaks):
    def produce(emit):
        emit("a")
        raise ModelAPIError("broken", provider="local")

    feed = ChunkStream(produce)

    with pytest.raises(ModelAPIError, match="local: broken"):
        read(feed, call.mode)


def test_leaving_early_stops_the_producer(call, no_leaks):
    said = []

    def produce(emit):
        while not emit(len(said)):
            said.append(1)
            time.sleep(0.001)

    feed = ChunkStream(produce)

    assert read(feed, call.mode, limit=5) == [0, 1, 2, 3, 4]
    assert feed.join(2)
    assert len(said) < 500


def test_a_slow_reader_makes_the_producer_wait(no_leaks):
    said = []

    def produce(emit):
        for number in range(MAX_QUEUED * 3):
            said.append(number)
            emit(number)

    feed = ChunkStream(produce)
    next(feed)
    time.sleep(0.1)

    assert len(said) <= MAX_QUEUED + 2
    assert list(feed) == list(range(1, MAX_QUEUED * 3))


def test_none_only_asks(no_leaks):
    feed = ChunkStream(lambda emit: [emit(None), emit("x"), emit(None)])

    assert list(feed) == ["x"]


def test_cancelling_the_task_that_reads_stops_the_producer(no_leaks):
    stopped = threading.Event()

    def produce(emit):
        emit("first")
        while not emit(None):
            time.sleep(0.005)
        stopped.set()

    async def body():
        feed = ChunkStream(produce)

        async def reader():
            async for _ in feed.chunks(ASYNC):
                pass

        task = asyncio.ensure_future(reader())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(body())

    assert stopped.wait(2)


def speak_late(emit):
    time.sleep(0.2)
    emit("late")


def test_reading_does_not_block_the_loop(no_leaks):
    async def body():
        feed = ChunkStream(speak_late)
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticker = asyncio.ensure_future(tick())
        items = [item async for item in feed.chunks(ASYNC)]
        ticker.cancel()
        return items, ticks

    items, ticks = asyncio.run(body())

    assert items == ["late"]
    assert ticks >= 5
