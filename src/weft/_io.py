"""The ways to wait, in two colours: the only file of weft that may block a thread or suspend a task.

A behaviour is one `async def` body that waits through an `IO` and nothing else. `BLOCKING` waits in the calling
thread and never suspends, so `drive()` can run the body without a loop; `ASYNC` suspends on the running loop.

Threads come from one elastic pool of daemon threads of our own, because `concurrent.futures` keeps a fixed number
of threads for ever and joins them at exit: eight slow tools would queue on six threads, and a user's function that
hangs would hang the interpreter.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import queue
import threading
import time
from collections import deque
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
    AbstractContextManager,
    aclosing,
    asynccontextmanager,
    closing,
    nullcontext,
    suppress,
)
from contextvars import Context, copy_context
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from weft._drive import drive, drive_each
from weft.exceptions import BlockingCallError, UsageError

T = TypeVar("T")
K = TypeVar("K")
logger = logging.getLogger("weft")

Around = AbstractContextManager[Any]
"""Entered around each step of a user's code, so it must be enterable again and again."""
UNCHANGED: Around = nullcontext()

LINGER = 0.5
"""Seconds an idle thread waits for the next job before it leaves."""
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

    async def result(self) -> Any: ...  # noqa: ANN401, D102
    def cancel(self) -> None: ...  # noqa: D102


class Channel(Protocol):
    """Carries items from any thread to the one body that reads them."""

    def put(self, item: Any) -> None: ...
    async def get(self) -> Any: ...


class IO(Protocol):
    """What a body may ask of the world."""

    blocking: bool

    async def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Call a user's function, whichever colour it has."""

    async def settle(self, value: Awaitable[T]) -> T:
        """Wait for an awaitable that somebody else made (an async callback handler)."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some time."""

    def as_completed(
        self, body: Callable[[T], Coroutine[Any, Any, Any]], items: Iterable[T], *, limit: int | None
    ) -> AsyncGenerator[Outcome, None]:
        """Run a body for each item, at most `limit` at once; outcomes as they come."""

    def merge(self, streams: Mapping[K, AsyncGenerator[T, None]]) -> AsyncGenerator[tuple[K, T], None]:
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


class Threads:
    """Daemon threads that appear when needed and leave after `LINGER` seconds without work."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job that never raises in some thread, soon."""
        with self._lock:
            self._jobs.put(job)
            if self._idle > 0:
                self._idle -= 1
                return
        threading.Thread(target=self._work, name="weft", daemon=True).start()

    def _work(self) -> None:
        job = self._jobs.get()
        while True:
            job()
            del job
            with self._lock:
                self._idle += 1
            while True:
                try:
                    job = self._jobs.get(timeout=LINGER)
                    break
                except queue.Empty:
                    with self._lock:
                        # No idle count left means a submit has reserved this thread: its job is on the way.
                        if self._idle > 0:
                            self._idle -= 1
                            return


THREADS = Threads()


def mutex() -> AbstractContextManager[Any]:
    """Make a lock to be held for a few instructions, never across a wait; the same in both colours."""
    return threading.Lock()


class OneAtATime:
    """Lets one thread in at a time; the same thread entering again is told so instead of hanging."""

    def __init__(self, message: str) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._message = message

    def __enter__(self) -> None:
        if self._owner == threading.get_ident():
            raise UsageError(self._message)
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._owner = None
        self._lock.release()


class Signal:
    """Wakes the tasks of a loop that wait for the next change; set from anywhere on that loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake everybody who waits now."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the next change."""
        await self._event.wait()


def _forget_threads() -> None:
    global THREADS  # noqa: PLW0603  a forked child has none of its parent's threads
    THREADS = Threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def _run_in_copy(context: Context, body: Callable[[Any], Coroutine[Any, Any, Any]], item: object) -> Any:  # noqa: ANN401
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


def in_main_thread() -> bool:
    """Whether signals, and so KeyboardInterrupt, are for this thread."""
    return threading.current_thread() is threading.main_thread()


class _Job:
    """A function running in another thread: `wait()` blocks for its outcome."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        self._function: Callable[[], Any] | None = function
        THREADS.submit(self._run)

    def _run(self) -> None:
        function, self._function = self._function, None
        try:
            self._value = function() if function else None
        except BaseException as error:
            self._error = error
        self._done.set()

    def wait(self) -> Any:  # noqa: ANN401
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value

    async def result(self) -> Any:  # noqa: ANN401
        return self.wait()

    def cancel(self) -> None:
        """A thread cannot be stopped from outside; its outcome is dropped."""


class _ThreadLock:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class _ThreadChannel:
    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.put = self._items.put

    async def get(self) -> Any:
        return self._items.get()


class _LoopChannel:
    """Items arrive in the order they were put, from the loop's own thread or from another one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()
        self._items: deque[Any] = deque()
        self._arrived = asyncio.Event()

    def put(self, item: Any) -> None:
        self._items.append(item)
        if threading.get_ident() == self._home:
            self._arrived.set()
            return
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody reads any more
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def get(self) -> Any:
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        return self._items.popleft()


_END = object()


async def _next_or_end(items: AsyncIterator[T]) -> T | object:
    return await anext(items, _END)


class Blocking:
    """Waits in the calling thread; a body on it never suspends."""

    blocking = True

    async def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
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
        settled: T = _Job(lambda: context.run(asyncio.run, wait())).wait()
        return settled

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def as_completed(
        self, body: Callable[[T], Coroutine[Any, Any, Any]], items: Iterable[T], *, limit: int | None
    ) -> AsyncGenerator[Outcome, None]:
        items = items if isinstance(items, Sized) else list(items)
        source, lock, context = enumerate(items), threading.Lock(), copy_context()
        workers = min(limit or DEFAULT_THREADS, len(items))
        if workers <= 1:
            for index, item in source:
                yield _outcome(index, context, body, item)
            return
        outcomes: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        # A reader slower than the workers must not have all outcomes waiting for it.
        room, stopped = threading.Semaphore(workers + LOOK_AHEAD), False

        def work() -> None:
            while room.acquire() and not stopped:
                with lock:
                    index, item = next(source, (-1, None))
                if index < 0:
                    break
                outcomes.put(_outcome(index, context, body, item))
            outcomes.put(None)

        running = workers
        for _ in range(workers):
            THREADS.submit(work)
        try:
            while running:
                got = outcomes.get()
                room.release()
                if got is None:
                    running -= 1
                else:
                    yield got
        except (KeyboardInterrupt, SystemExit):
            running = 0  # the program is to end: its threads are not waited for
            raise
        finally:
            stopped = True
            room.release(workers)
            while running:
                running -= outcomes.get() is None

    async def merge(
        self, streams: Mapping[K, AsyncGenerator[T, None]]
    ) -> AsyncGenerator[tuple[K, T], None]:
        ready: queue.SimpleQueue[tuple[K, T] | BaseException | None] = queue.SimpleQueue()
        room, context, stopped = threading.Semaphore(LOOK_AHEAD), copy_context(), False

        def read(key: K, stream: AsyncGenerator[T, None]) -> None:
            try:
                with closing(drive_each(stream)) as items:
                    for item in items:
                        room.acquire()
                        if stopped:
                            break
                        ready.put((key, item))
            except BaseException as error:
                ready.put(error)
            ready.put(None)

        for key, stream in streams.items():
            copied = context.copy()
            THREADS.submit(lambda copied=copied, key=key, stream=stream: copied.run(read, key, stream))  # type: ignore[misc]
        open_streams = len(streams)
        try:
            while open_streams:
                got = ready.get()
                if got is None:
                    open_streams -= 1
                elif isinstance(got, BaseException):
                    raise got
                else:
                    room.release()
                    yield got
        except (KeyboardInterrupt, SystemExit):
            open_streams = 0  # the program is to end: its threads are not waited for
            raise
        finally:
            stopped = True
            room.release(max(1, len(streams)))
            while open_streams:
                open_streams -= ready.get() is None

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
                    step = next(iterator, _END)
                if step is _END:
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
        running = _Job(loop.run_forever)

        def wait(body: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
            return asyncio.run_coroutine_threadsafe(body, loop).result()

        try:
            while (item := wait(_next_or_end(items))) is not _END:
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
        return _Job(lambda: context.run(drive, body))

    def lock(self) -> AbstractAsyncContextManager[Any]:
        return _ThreadLock()

    def channel(self) -> Channel:
        return _ThreadChannel()


async def _in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def settle(value: Any, error: BaseException | None) -> None:  # noqa: ANN401
        if future.done():
            return
        if isinstance(error, StopIteration):
            # A future refuses StopIteration: it would end the coroutine that awaits it.
            future.set_exception(RuntimeError("StopIteration raised by a user's function"))
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    def run() -> None:
        value, failure = None, None
        try:
            value = context.run(function, *args, **kwargs)
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:
            pass  # the loop was closed meanwhile: nobody waits any more

    THREADS.submit(run)
    return await future


class _ThreadIterator(AsyncIterator[T]):
    """A user's blocking iterator under a loop: each step in a thread, all of them in one context."""

    def __init__(self, items: Iterable[T], around: Around) -> None:
        self._items = items
        self._iterator: Iterator[T] | None = None
        self._busy = threading.Lock()
        with around:
            # One for all steps: what the user's generator sets, it sees again.
            self._context = copy_context()

    def _step(self) -> T | object:
        with self._busy:
            if self._iterator is None:
                self._iterator = iter(self._items)
            return next(self._iterator, _END)

    def _close(self) -> None:
        with self._busy:
            if inspect.isgenerator(self._iterator):
                self._iterator.close()

    async def __anext__(self) -> T:
        step = await _in_thread(self._context.run, self._step)
        if step is _END:
            raise StopAsyncIteration
        return cast("T", step)

    async def aclose(self) -> None:
        """Close the user's generator; if we were cancelled in the middle of a step, as soon as that step ends."""
        if self._busy.locked():
            THREADS.submit(self._close_quietly)
        elif inspect.isgenerator(self._iterator):
            await _in_thread(self._context.run, self._close)

    def _close_quietly(self) -> None:
        try:
            with self._busy:
                pass
            self._context.run(self._close)
        except BaseException:
            logger.warning("a generator whose reader was cancelled failed to close", exc_info=True)


class _LoopIterator(Iterator[T]):
    """A stream of ours for a user's blocking code in a thread: each step is run by the loop."""

    def __init__(self, stream: AsyncGenerator[T, None]) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._step: asyncio.Task[Any] | None = None
        self._closed = False

    async def _next(self) -> T | object:
        if self._closed:
            return _END
        self._step = asyncio.current_task()
        try:
            return await anext(self._stream, _END)
        finally:
            self._step = None

    def __next__(self) -> T:
        step = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()
        if step is _END:
            raise StopIteration
        return cast("T", step)

    async def aclose(self) -> None:
        """End the iteration; a step under way is cancelled."""
        self._closed = True
        if self._step is not None:
            await _cancel_all({self._step})


class _Task:
    def __init__(self, body: Coroutine[Any, Any, Any]) -> None:
        self._task = asyncio.ensure_future(body)

    async def result(self) -> Any:  # noqa: ANN401
        return await self._task

    def cancel(self) -> None:
        self._task.cancel()


class Async:
    """Suspends on the running loop; blocking functions run in threads."""

    blocking = False

    async def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if inspect.iscoroutinefunction(function):
            return await function(*args, **kwargs)
        result = await _in_thread(function, *args, **kwargs)
        return await result if hasattr(type(result), "__await__") else result

    async def settle(self, value: Awaitable[T]) -> T:
        return await value

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def as_completed(
        self, body: Callable[[T], Coroutine[Any, Any, Any]], items: Iterable[T], *, limit: int | None
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
            await _cancel_all(running)

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
            await _cancel_all(tasks)

    async def each(
        self, items: Iterable[T] | AsyncIterator[T], around: Around = UNCHANGED
    ) -> AsyncGenerator[T, None]:
        if not isinstance(items, AsyncIterator):
            items = _ThreadIterator(items, around)
            around = UNCHANGED
        try:
            if around is UNCHANGED:
                async for item in items:
                    yield item
                return
            while True:
                with around:
                    step = await anext(items, _END)
                if step is _END:
                    return
                yield cast("T", step)
        finally:
            if inspect.isasyncgen(items) or isinstance(items, _ThreadIterator):
                with around:
                    await items.aclose()

    @asynccontextmanager
    async def iterate(self, stream: AsyncGenerator[T, None]) -> AsyncGenerator[Iterator[T], None]:
        items = _LoopIterator(stream)
        try:
            yield items
        finally:
            await items.aclose()

    def adapt(self, items: Iterable[T] | AsyncIterator[T]) -> AsyncGenerator[T, None]:
        return self.each(items)

    def start(self, body: Coroutine[Any, Any, Any]) -> Started:
        return _Task(body)

    def lock(self) -> AbstractAsyncContextManager[Any]:
        return asyncio.Lock()

    def channel(self) -> Channel:
        return _LoopChannel()


async def shield(body: Coroutine[Any, Any, T]) -> T:
    """Wait for a body that runs to its end although the one who waits is cancelled."""
    return await asyncio.shield(asyncio.ensure_future(body))


async def _cancel_all(tasks: set[asyncio.Task[Any]]) -> None:
    waiting = [task for task in tasks if not task.done()]
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.gather(*waiting, return_exceptions=True)


BLOCKING: IO = Blocking()
ASYNC: IO = Async()
