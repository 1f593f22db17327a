"""Waiting in the calling thread: the blocking half of `_io`, whose bodies never suspend."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sized,
)
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, closing
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar, cast

from foldline._io.drive import drive, drive_each
from foldline._io.gather import LOOK_AHEAD, STOPPED_BY, ThreadGatherer
from foldline._io.locks import ThreadChannel, ThreadLock
from foldline._io.waiting import (
    END,
    THREADS,
    UNCHANGED,
    Around,
    Job,
    Outcome,
    in_main_thread,
    next_or_end,
)
from foldline.exceptions import BlockingCallError

__all__ = ["Blocking"]

T = TypeVar("T")
K = TypeVar("K")

DEFAULT_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Parallel calls of a blocking batch without `max_concurrency`."""


def _run_in_copy(
    context: Context, body: Callable[[Any], Coroutine[Any, Any, Any]], item: object
) -> object:
    return context.copy().run(lambda: drive(body(item)))


def _outcome(
    index: int, context: Context, body: Callable[[Any], Coroutine[Any, Any, Any]], item: object
) -> Outcome:
    try:
        return Outcome(index, _run_in_copy(context, body, item), None)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit) and in_main_thread():
            raise
        return Outcome(index, None, error)


class Blocking:
    """Waits in the calling thread; a body on it never suspends."""

    blocking = True

    async def call(self, function: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401  the result of a user's function
        result = function(*args, **kwargs)
        if hasattr(type(result), "__await__"):
            if inspect.iscoroutine(result):
                result.close()
            name = getattr(function, "__qualname__", repr(function))
            raise BlockingCallError(
                f"{name} is async and was reached by a blocking call: use ainvoke, astream or abatch, "
                "or give a blocking function too"
            )
        return result

    async def settle(self, value: Awaitable[T]) -> T:
        async def wait() -> T:
            return await value

        context = copy_context()
        result: T = Job(lambda: context.run(asyncio.run, wait())).wait()
        return result

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def bounded(self, seconds: float, body: Coroutine[Any, Any, T]) -> T:
        context = copy_context()
        result: T = Job(lambda: context.run(drive, body)).wait(seconds)
        return result

    async def as_completed(
        self,
        body: Callable[[T], Coroutine[Any, Any, Any]],
        items: Iterable[T],
        *,
        limit: int | None,
    ) -> AsyncGenerator[Outcome, None]:
        items = items if isinstance(items, Sized) else list(items)
        source, lock, context = enumerate(items), threading.Lock(), copy_context()
        workers = min(limit or DEFAULT_THREADS, len(items))
        if workers <= 1:
            for index, item in source:
                yield _outcome(index, context, body, item)
            return
        gatherer: ThreadGatherer[Outcome] = ThreadGatherer(workers, workers + LOOK_AHEAD)

        def work() -> None:
            while gatherer.has_room():
                with lock:
                    index, item = next(source, (-1, None))
                if index < 0:
                    break
                gatherer.put(_outcome(index, context, body, item))
            gatherer.leave()

        for _ in range(workers):
            THREADS.submit(work)
        with closing(gatherer.items()) as outcomes:
            for outcome in outcomes:
                yield outcome

    async def merge(
        self, streams: Mapping[K, AsyncGenerator[T, None]]
    ) -> AsyncGenerator[tuple[K, T], None]:
        gatherer: ThreadGatherer[tuple[K, T] | BaseException] = ThreadGatherer(
            len(streams), LOOK_AHEAD
        )

        def read(key: K, stream: AsyncGenerator[T, None]) -> None:
            try:
                with closing(drive_each(stream)) as items:
                    for item in items:
                        if not gatherer.has_room():
                            STOPPED_BY.set(gatherer.failure)
                            break
                        gatherer.put((key, item))
            except BaseException as error:
                gatherer.failure = error
                gatherer.put(error)
            gatherer.leave()

        for key, stream in streams.items():
            THREADS.submit(partial(copy_context().run, read, key, stream))
        with closing(gatherer.items()) as items:
            for item in items:
                if isinstance(item, BaseException):
                    raise item
                yield item

    async def each(
        self, items: Iterable[T] | AsyncIterator[T], around: Around = UNCHANGED
    ) -> AsyncGenerator[T, None]:
        if isinstance(items, AsyncIterator):
            raise BlockingCallError(
                f"{items!r} is async and was reached by a blocking call: use astream or atransform"
            )
        iterator = iter(items)
        try:
            if around is UNCHANGED:
                for item in iterator:
                    yield item
                return
            while True:
                with around:
                    step = next(iterator, END)
                if step is END:
                    return
                yield cast("T", step)
        finally:
            if inspect.isgenerator(iterator):
                with around:
                    iterator.close()

    @asynccontextmanager
    async def iterate(self, stream: AsyncGenerator[T, None]) -> AsyncGenerator[Iterator[T], None]:
        with closing(drive_each(stream)) as items:
            yield items

    async def adapt(self, items: Iterable[T] | AsyncIterator[T]) -> AsyncGenerator[T, None]:
        if not isinstance(items, AsyncIterator):
            async with aclosing(self.each(items)) as stream:
                async for item in stream:
                    yield item
            return
        loop = asyncio.new_event_loop()
        loop_job = Job(loop.run_forever)

        def wait(body: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401  the result of any coroutine
            return asyncio.run_coroutine_threadsafe(body, loop).result()

        try:
            while (item := wait(next_or_end(items))) is not END:
                yield item
        finally:
            if inspect.isasyncgen(items):
                wait(items.aclose())
            wait(loop.shutdown_asyncgens())
            loop.call_soon_threadsafe(loop.stop)
            loop_job.wait()
            loop.close()

    def start(self, body: Coroutine[Any, Any, Any]) -> Job:
        context = copy_context()
        return Job(lambda: context.run(drive, body))

    def lock(self) -> AbstractAsyncContextManager[Any]:
        return ThreadLock()

    def channel(self) -> ThreadChannel:
        return ThreadChannel()
