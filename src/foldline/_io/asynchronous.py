"""Suspending on the running loop: the async half of `_io`; blocking functions run in threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar, cast

from foldline._io.gather import LOOK_AHEAD, TaskGatherer
from foldline._io.locks import LoopChannel
from foldline._io.waiting import (
    END,
    UNCHANGED,
    Around,
    LoopIterator,
    Outcome,
    OutOfTime,
    Task,
    ThreadIterator,
    cancel_all,
    in_thread,
    is_async_callable,
)

__all__ = ["Async", "Inline"]

T = TypeVar("T")
K = TypeVar("K")


class Async:
    """Suspends on the running loop; blocking functions run in threads."""

    blocking = False

    async def call(self, function: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401  the result of a user's function
        if is_async_callable(function):
            return await function(*args, **kwargs)
        result = await in_thread(function, *args, **kwargs)
        return await result if hasattr(type(result), "__await__") else result

    async def settle(self, value: Awaitable[T]) -> T:
        return await value

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def bounded(self, seconds: float, body: Coroutine[Any, Any, T]) -> T:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await body
        except TimeoutError:
            if limit.expired():
                raise OutOfTime(seconds) from None
            raise

    async def as_completed(
        self,
        body: Callable[[T], Coroutine[Any, Any, Any]],
        items: Iterable[T],
        *,
        limit: int | None,
    ) -> AsyncGenerator[Outcome, None]:
        outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        running: set[asyncio.Task[Any]] = set()

        def on_done(task: asyncio.Task[Any], index: int) -> None:
            running.discard(task)
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            outcomes.put_nowait(Outcome(index, None if error else task.result(), error))

        source, pending = enumerate(items), 0
        try:
            while True:
                while limit is None or pending < limit:
                    index, item = next(source, (-1, None))
                    if index < 0:
                        break
                    task = asyncio.ensure_future(body(item))  # type: ignore[arg-type]
                    running.add(task)
                    pending += 1
                    task.add_done_callback(lambda task, index=index: on_done(task, index))  # type: ignore[misc]
                if not pending:
                    return
                outcome = await outcomes.get()
                pending -= 1
                yield outcome
        finally:
            await cancel_all(running)

    def merge(
        self, streams: Mapping[K, AsyncGenerator[T, None]]
    ) -> AsyncGenerator[tuple[K, T], None]:
        return TaskGatherer(streams, LOOK_AHEAD).items()

    async def each(
        self, items: Iterable[T] | AsyncIterator[T], around: Around = UNCHANGED
    ) -> AsyncGenerator[T, None]:
        if not isinstance(items, AsyncIterator):
            items = ThreadIterator(items, around)
            around = UNCHANGED
        try:
            if around is UNCHANGED:
                async for item in items:
                    yield item
                return
            while True:
                with around:
                    step = await anext(items, END)
                if step is END:
                    return
                yield cast("T", step)
        finally:
            if inspect.isasyncgen(items) or isinstance(items, ThreadIterator):
                with around:
                    await items.aclose()

    @asynccontextmanager
    async def iterate(self, stream: AsyncGenerator[T, None]) -> AsyncGenerator[Iterator[T], None]:
        items = LoopIterator(stream)
        try:
            yield items
        finally:
            await items.aclose()

    def adapt(self, items: Iterable[T] | AsyncIterator[T]) -> AsyncGenerator[T, None]:
        return self.each(items)

    def start(self, body: Coroutine[Any, Any, Any]) -> Task:
        return Task(body)

    def lock(self) -> AbstractAsyncContextManager[Any]:
        return asyncio.Lock()

    def channel(self) -> LoopChannel:
        return LoopChannel()


class Inline(Async):
    """Suspends on a loop without threads, such as that of a durable engine: blocking functions run in place."""

    def __init__(self, has_no_threads: Callable[[], bool]) -> None:
        self._has_no_threads = has_no_threads

    async def call(self, function: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401  the result of a user's function
        if not self._has_no_threads():
            return await super().call(function, *args, **kwargs)
        result = function(*args, **kwargs)
        return await result if hasattr(type(result), "__await__") else result
