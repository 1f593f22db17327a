"""Several streams for one reader, sync and async: producers may be ahead of the reader, up to a limit.

When the reader stops, the producers are stopped and waited for. Streams that are closed then can call `stopped_by()`:
one that is closed because a parallel stream failed has failed too, one that its reader closed has ended.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing
from contextvars import ContextVar, copy_context
from typing import Generic, TypeVar

from foldline._io.waiting import cancel_all

__all__ = ["LOOK_AHEAD", "STOPPED_BY", "TaskGatherer", "ThreadGatherer", "stopped_by"]

T = TypeVar("T")
K = TypeVar("K")

LOOK_AHEAD = 16
"""Items a merged stream may be ahead of its reader."""
STOPPED_BY: ContextVar[BaseException | None] = ContextVar("foldline_stopped_by")
"""Set in the context of a thread or task that is stopped, before it closes its stream."""


def stopped_by() -> BaseException | None:
    """Return the failure of a parallel stream because of which a stream is closed; None if its reader closed it."""
    return STOPPED_BY.get(None)


class ThreadGatherer(Generic[T]):
    """Items of several threads for one reader, which they may be ahead of up to a limit."""

    def __init__(self, producers: int, ahead: int) -> None:
        self._producers = producers
        self._items: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(ahead)
        self._is_stopped = False
        self.failure: BaseException | None = None
        """The error because of which the producers are stopped; None if the reader stopped."""

    def has_room(self) -> bool:
        """Wait until an item may be put; return False if the reader has stopped."""
        self._room.acquire()
        return not self._is_stopped

    def put(self, item: T) -> None:
        """Pass an item to the reader."""
        self._items.put(item)

    def leave(self) -> None:
        """End this producer, which puts no more items."""
        self._items.put(None)

    def items(self) -> Generator[T, None, None]:
        """Yield items until all producers have ended; closing this waits for their current steps."""
        producing = self._producers
        try:
            while producing:
                item = self._items.get()
                if item is None:
                    producing -= 1
                else:
                    self._room.release()
                    yield item
        except (KeyboardInterrupt, SystemExit) as error:
            self.failure = error
            producing = 0  # the program ends: its threads are not waited for
            raise
        finally:
            if (
                not sys.is_finalizing()
            ):  # at the exit of Python threads run no more: nobody would answer
                self.failure = self.failure or stopped_by()
                self._is_stopped = True
                self._room.release(max(1, self._producers))
                while producing:
                    producing -= self._items.get() is None


class TaskGatherer(Generic[K, T]):
    """Items of several streams for one reader, each stream read by a task."""

    def __init__(self, streams: Mapping[K, AsyncGenerator[T, None]], ahead: int) -> None:
        self._streams = streams
        self._items: asyncio.Queue[tuple[K, T] | BaseException | None] = asyncio.Queue()
        # Separate from the queue: otherwise a fast stream could delay the end of another one forever.
        self._room = asyncio.Semaphore(ahead)
        self._is_stopped = False

    async def items(self) -> AsyncGenerator[tuple[K, T], None]:
        """Yield items until all streams have ended or one fails; closing this closes them."""
        loop = asyncio.get_running_loop()
        contexts = {key: copy_context() for key in self._streams}
        tasks = {
            loop.create_task(self._read_stream(key, stream), context=contexts[key])
            for key, stream in self._streams.items()
        }
        producing = len(tasks)
        try:
            while producing:
                item = await self._items.get()
                if item is None:
                    producing -= 1
                elif isinstance(item, BaseException):
                    raise item
                else:
                    self._room.release()
                    yield item
        except BaseException as error:
            failure = STOPPED_BY.get(None if isinstance(error, GeneratorExit) else error)
            for context in contexts.values():
                context.run(STOPPED_BY.set, failure)
            raise
        finally:
            self._is_stopped = True
            await cancel_all(tasks)

    async def _read_stream(self, key: K, stream: AsyncGenerator[T, None]) -> None:
        try:
            async with aclosing(stream):
                async for item in stream:
                    await self._room.acquire()
                    self._items.put_nowait((key, item))
        except BaseException as error:
            if self._is_stopped:  # cancelled by us: the reader has stopped
                raise
            self._items.put_nowait(error)
        self._items.put_nowait(None)
