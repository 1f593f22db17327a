"""The ways to wait, in two colours: nothing else in weft may block a thread or suspend a task.

A behaviour is one `async def` body that waits through an `IO` and nothing else. `BLOCKING` waits in the calling
thread and never suspends, so `drive()` can run the body without a loop; `ASYNC` suspends on the running loop.

What the two wait with is in `_waiting` (threads, tasks), `_locks` and `_private_loop`.
"""

from __future__ import annotations

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
from contextlib import (
    AbstractAsyncContextManager,
    aclosing,
    asynccontextmanager,
    closing,
    nullcontext,
)
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from weft._drive import drive, drive_each
from weft._lazy import late
from weft._locks import (
    Interruptible,
    LoopChannel,
    OneAtATime,
    Signal,
    ThreadChannel,
    ThreadLock,
    mutex,
)
from weft._private_loop import PrivateLoop, run_loop
from weft._waiting import (
    END,
    THREADS,
    Around,
    Gathering,
    Job,
    LoopIterator,
    OutOfTime,
    Task,
    ThreadIterator,
    cancel_all,
    in_main_thread,
    in_thread,
    is_async_callable,
    next_or_end,
    shield,
)
from weft.exceptions import BlockingCallError

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = late("asyncio")

__all__ = [
    "ASYNC",
    "BLOCKING",
    "IO",
    "Channel",
    "Interruptible",
    "OneAtATime",
    "OutOfTime",
    "Outcome",
    "PrivateLoop",
    "Signal",
    "Started",
    "mutex",
    "run_loop",
    "shield",
]

T = TypeVar("T")
K = TypeVar("K")

UNCHANGED: Around = nullcontext()

LOOK_AHEAD = 16
"""Items a merged stream may be ahead of its reader."""
DEFAULT_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Parallel calls of a blocking batch that sets no `max_concurrency`."""


class Outcome(NamedTuple):
    """How one of several bodies ended: its place among the items, and a `value` or an `error`."""

    place: int
    value: Any
    error: BaseException | None


class Started(Protocol):
    """A body under way; `result()` waits for it, `cancel()` asks it to stop."""

    async def result(self) -> Any: ...
    def cancel(self) -> None: ...


class Channel(Protocol):
    """Carries items from any thread to the one body that reads them."""

    def put(self, item: Any) -> None: ...
    async def get(self) -> Any: ...


class IO(Protocol):
    """What a body may ask of the world."""

    blocking: bool

    async def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a user's function, whichever colour it has."""

    async def settle(self, value: Awaitable[T]) -> T:
        """Wait for an awaitable that somebody else made (an async callback handler)."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some time."""

    async def bounded(self, seconds: float, body: Coroutine[Any, Any, T]) -> T:
        """Run a body that must end in time, else raise OutOfTime; a thread that hangs is left behind."""

    def as_completed(
        self,
        body: Callable[[T], Coroutine[Any, Any, Any]],
        items: Iterable[T],
        *,
        limit: int | None,
    ) -> AsyncGenerator[Outcome, None]:
        """Run a body for each item, at most `limit` at once; outcomes as they come."""

    def merge(
        self, streams: Mapping[K, AsyncGenerator[T, None]]
    ) -> AsyncGenerator[tuple[K, T], None]:
        """Read several streams at once; items as they come."""

    def each(
        self, items: Iterable[T] | AsyncIterator[T], around: Around = UNCHANGED
    ) -> AsyncGenerator[T, None]:
        """Iterate what a user gave, whichever colour it has; `around` is entered for every step."""

    def iterate(self, stream: AsyncGenerator[T, None]) -> AbstractAsyncContextManager[Iterator[T]]:
        """Let a user's blocking code iterate a stream of ours."""

    def adapt(self, items: Iterable[T] | AsyncIterator[T]) -> AsyncGenerator[T, None]:
        """Iterate what an author wrote in only one colour: like `each`, and an async iterator works everywhere."""

    def start(self, body: Coroutine[Any, Any, Any]) -> Started:
        """Run a body beside this one."""

    def lock(self) -> AbstractAsyncContextManager[Any]:
        """Make a lock for the bodies of one call."""

    def channel(self) -> Channel:
        """Make a channel from anywhere to one reader of this colour."""


def _run_in_copy(
    context: Context, body: Callable[[Any], Coroutine[Any, Any, Any]], item: object
) -> Any:
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

    async def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
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
        settled: T = Job(lambda: context.run(asyncio.run, wait())).wait()
        return settled

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
        gathering: Gathering[Outcome] = Gathering(workers, workers + LOOK_AHEAD)

        def work() -> None:
            while gathering.has_room():
                with lock:
                    index, item = next(source, (-1, None))
                if index < 0:
                    break
                gathering.put(_outcome(index, context, body, item))
            gathering.leave()

        for _ in range(workers):
            THREADS.submit(work)
        with closing(gathering.items()) as outcomes:
            for outcome in outcomes:
                yield outcome

    async def merge(
        self, streams: Mapping[K, AsyncGenerator[T, None]]
    ) -> AsyncGenerator[tuple[K, T], None]:
        gathering: Gathering[tuple[K, T] | BaseException] = Gathering(len(streams), LOOK_AHEAD)

        def read(key: K, stream: AsyncGenerator[T, None]) -> None:
            try:
                with closing(drive_each(stream)) as items:
                    for item in items:
                        if not gathering.has_room():
                            break
                        gathering.put((key, item))
            except BaseException as error:
                gathering.put(error)
            gathering.leave()

        for key, stream in streams.items():
            THREADS.submit(partial(copy_context().run, read, key, stream))
        with closing(gathering.items()) as items:
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
            async with aclosing(self.each(items)) as each:
                async for item in each:
                    yield item
            return
        loop = asyncio.new_event_loop()
        running = Job(loop.run_forever)

        def wait(body: Coroutine[Any, Any, Any]) -> Any:
            return asyncio.run_coroutine_threadsafe(body, loop).result()

        try:
            while (item := wait(next_or_end(items))) is not END:
                yield item
        finally:
            if inspect.isasyncgen(items):
                wait(items.aclose())
            wait(loop.shutdown_asyncgens())
            loop.call_soon_threadsafe(loop.stop)
            running.wait()
            loop.close()

    def start(self, body: Coroutine[Any, Any, Any]) -> Started:
        context = copy_context()
        return Job(lambda: context.run(drive, body))

    def lock(self) -> AbstractAsyncContextManager[Any]:
        return ThreadLock()

    def channel(self) -> Channel:
        return ThreadChannel()


class Async:
    """Suspends on the running loop; blocking functions run in threads."""

    blocking = False

    async def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
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
        done: asyncio.Queue[Outcome] = asyncio.Queue()
        running: set[asyncio.Task[Any]] = set()

        def ended(task: asyncio.Task[Any], index: int) -> None:
            running.discard(task)
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            done.put_nowait(Outcome(index, None if error else task.result(), error))

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
                    task.add_done_callback(lambda task, index=index: ended(task, index))  # type: ignore[misc]
                if not pending:
                    return
                outcome = await done.get()
                pending -= 1
                yield outcome
        finally:
            await cancel_all(running)

    async def merge(
        self, streams: Mapping[K, AsyncGenerator[T, None]]
    ) -> AsyncGenerator[tuple[K, T], None]:
        ready: asyncio.Queue[tuple[K, T] | BaseException | None] = asyncio.Queue(LOOK_AHEAD)

        stopped = False

        async def read(key: K, stream: AsyncGenerator[T, None]) -> None:
            try:
                async with aclosing(stream):
                    async for item in stream:
                        await ready.put((key, item))
            except BaseException as error:
                if stopped:  # cancelled by us: nobody reads any more
                    raise
                await ready.put(error)
            await ready.put(None)

        tasks = {asyncio.ensure_future(read(key, stream)) for key, stream in streams.items()}
        open_streams = len(tasks)
        try:
            while open_streams:
                got = await ready.get()
                if got is None:
                    open_streams -= 1
                elif isinstance(got, BaseException):
                    raise got
                else:
                    yield got
        finally:
            stopped = True
            await cancel_all(tasks)

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

    def start(self, body: Coroutine[Any, Any, Any]) -> Started:
        return Task(body)

    def lock(self) -> AbstractAsyncContextManager[Any]:
        return asyncio.Lock()

    def channel(self) -> Channel:
        return LoopChannel()


BLOCKING: IO = Blocking()
ASYNC: IO = Async()
