"""What the two colours of `_io` wait with: threads, locks, channels, and the bridges between thread and loop.

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
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from contextvars import copy_context
from typing import Any, Generic, TypeVar, cast

from weft.exceptions import UsageError

T = TypeVar("T")
logger = logging.getLogger("weft")

Around = AbstractContextManager[Any]
"""Entered around each step of a user's code, so it must be enterable again and again."""

LINGER = 0.5
"""Seconds an idle thread waits for the next job before it leaves."""

GRACE = 1.0
"""Seconds that a cancelled task waits for what it shielded."""
END = object()


async def next_or_end(items: AsyncIterator[T]) -> T | object:
    """Give the next item, or END."""
    return await anext(items, END)


class Threads:
    """Daemon threads that appear when needed and leave after `LINGER` seconds without work."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: a forked child has none of its parent's threads."""
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
        while (job := self._next()) is not None:
            job()
            del job
            with self._lock:
                self._idle += 1

    def _next(self) -> Callable[[], None] | None:
        # A new thread waits like any other: one that was idle may have taken the job it was started for.
        while True:
            try:
                return self._jobs.get(timeout=LINGER)
            except queue.Empty:
                with self._lock:
                    # No idle count left means a submit has reserved this thread: its job is on the way.
                    if self._idle > 0:
                        self._idle -= 1
                        return None


THREADS = Threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=THREADS.forget)


def in_main_thread() -> bool:
    """Whether signals, and so KeyboardInterrupt, are for this thread."""
    return threading.current_thread() is threading.main_thread()


class OutOfTime(Exception):
    """A body took longer than it was given; `seconds` says how long that was."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"took longer than {seconds:g} s")


class Job:
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

    def wait(self, timeout: float | None = None) -> Any:
        if not self._done.wait(timeout):
            raise OutOfTime(timeout or 0.0)
        if self._error is not None:
            raise self._error
        return self._value

    async def result(self) -> Any:
        return self.wait()

    def cancel(self) -> None:
        """A thread cannot be stopped from outside; its outcome is dropped."""


async def in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
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
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(settle, value, failure)

    THREADS.submit(run)
    return await future


class ThreadIterator(AsyncIterator[T]):
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
            return next(self._iterator, END)

    def _close(self) -> None:
        with self._busy:
            if inspect.isgenerator(self._iterator):
                self._iterator.close()

    async def __anext__(self) -> T:
        step = await in_thread(self._context.run, self._step)
        if step is END:
            raise StopAsyncIteration
        return cast("T", step)

    async def aclose(self) -> None:
        """Close the user's generator; if we were cancelled in the middle of a step, as soon as that step ends."""
        if self._busy.locked():
            THREADS.submit(self._close_quietly)
        elif inspect.isgenerator(self._iterator):
            await in_thread(self._context.run, self._close)

    def _close_quietly(self) -> None:
        try:
            with self._busy:
                pass
            self._context.run(self._close)
        except BaseException:
            logger.warning("a generator whose reader was cancelled failed to close", exc_info=True)


class LoopIterator(Iterator[T]):
    """A stream of ours for a user's blocking code in a thread: each step is run by the loop."""

    def __init__(self, stream: AsyncGenerator[T, None]) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._step: asyncio.Task[Any] | None = None
        self._closed = False

    async def _next(self) -> T | object:
        if self._closed:
            return END
        self._step = asyncio.current_task()
        try:
            return await anext(self._stream, END)
        finally:
            self._step = None

    def __next__(self) -> T:
        step = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()
        if step is END:
            raise StopIteration
        return cast("T", step)

    async def aclose(self) -> None:
        """End the iteration; a step under way is cancelled."""
        self._closed = True
        if self._step is not None:
            await cancel_all({self._step})


class Task:
    def __init__(self, body: Coroutine[Any, Any, Any]) -> None:
        self._task = asyncio.ensure_future(body)

    async def result(self) -> Any:
        return await self._task

    def cancel(self) -> None:
        self._task.cancel()


async def shield(body: Coroutine[Any, Any, T]) -> T:
    """Wait for a body that runs to its end although the one who waits is cancelled.

    Who was cancelled waits a little longer, since a loop that closes would cancel what is left behind on it.
    """
    task = asyncio.ensure_future(body)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task], timeout=GRACE)
        raise


async def cancel_all(tasks: set[asyncio.Task[Any]]) -> None:
    waiting = [task for task in tasks if not task.done()]
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.gather(*waiting, return_exceptions=True)


class Gathering(Generic[T]):
    """Items of several threads for one reader, which they may be only so far ahead of."""

    def __init__(self, producers: int, ahead: int) -> None:
        self._producers = producers
        self._items: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(ahead)
        self._stopped = False

    def has_room(self) -> bool:
        """Wait until an item may be put; False if nobody reads any more."""
        self._room.acquire()
        return not self._stopped

    def put(self, item: T) -> None:
        """Hand an item to the reader."""
        self._items.put(item)

    def leave(self) -> None:
        """Say that this producer puts no more; the last thing each of them does."""
        self._items.put(None)

    def items(self) -> Generator[T, None, None]:
        """Read until all producers have left; closing this waits for what they are doing now."""
        producing = self._producers
        try:
            while producing:
                item = self._items.get()
                if item is None:
                    producing -= 1
                else:
                    self._room.release()
                    yield item
        except (KeyboardInterrupt, SystemExit):
            producing = 0  # the program is to end: its threads are not waited for
            raise
        finally:
            self._stopped = True
            self._room.release(max(1, self._producers))
            while producing:
                producing -= self._items.get() is None


def mutex() -> AbstractContextManager[Any]:
    """Make a lock to be held for a few instructions, never across a wait; the same in both colours."""
    return threading.Lock()


class OneAtATime:
    """Lets one thread in at a time; the same thread entering again is told so instead of hanging."""

    __slots__ = ("_lock", "_message")

    def __init__(self, message: str) -> None:
        self._lock: Any = (
            threading.RLock()
        )  # one written in C knows its owner, and is quick to enter
        self._message = message

    def alone(self) -> AbstractContextManager[bool]:
        """Give what to enter: it waits for other threads."""
        if self._lock._is_owned():
            raise UsageError(self._message)
        lock: AbstractContextManager[bool] = self._lock
        return lock

    def enter_if_free(self) -> bool:
        """Enter without waiting; False where somebody is inside, this thread included."""
        return not self._lock._is_owned() and self._lock.acquire(blocking=False)

    def leave(self) -> None:
        """End what `enter_if_free` began."""
        self._lock.release()


class Interruptible:
    """The step of a stream that some task is taking; another task of the loop may interrupt it.

    The interrupted task sees no cancellation: its `with` block just ends, and `is_interrupted` says why.
    """

    __slots__ = ("_task", "is_interrupted")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self.is_interrupted = False

    @property
    def is_mine(self) -> bool:
        """Whether the step under way is taken by the task that asks."""
        return self._task is not None and self._task is asyncio.current_task()

    def interrupt(self) -> None:
        """Stop the step under way."""
        self.is_interrupted = True
        if self._task is not None and not self.is_mine:
            self._task.cancel()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        task, self._task = self._task, None
        if not self.is_interrupted or task is None or not task.cancelling():
            return False
        # Somebody else may have cancelled the task too: that stays.
        left = task.uncancel()
        return kind is not None and issubclass(kind, asyncio.CancelledError) and not left


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


class ThreadLock:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class ThreadChannel:
    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.put = self._items.put

    async def get(self) -> Any:
        return self._items.get()


class LoopChannel:
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


class PrivateLoop:
    """An event loop in a thread of its own, where a client lives that is async and outlasts a call (an MCP session).

    Bodies of either colour, in any thread and on any loop, run coroutines there.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._resident: asyncio.Task[Any] | None = None
        self._stay: asyncio.Task[None] | None = None
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="weft-loop", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether coroutines may be run; a forked child has none of its parent's threads."""
        return self._process == os.getpid() and not self._closing and self._thread.is_alive()

    def _work(self) -> None:
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            self._loop.run_until_complete(cancel_all(tasks))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def run(self, body: Coroutine[Any, Any, T], *, blocking: bool) -> T:
        """Run a coroutine to its end on this loop; whoever stops waiting cancels it."""
        with (
            self._lock
        ):  # what is submitted before the loop is told to stop is cancelled by it, not forgotten
            if self._closing:
                body.close()
                raise ConnectionAbortedError("closed")
            future = asyncio.run_coroutine_threadsafe(body, self._loop)
        try:
            return future.result() if blocking else await asyncio.wrap_future(future)
        except BaseException as error:
            future.cancel()
            cancelled = isinstance(error, asyncio.CancelledError | CancelledError)
            if self._closing and cancelled and (blocking or not _is_cancelled()):
                raise ConnectionAbortedError("closed while in use") from None
            raise

    async def use(
        self,
        make: Callable[[], AbstractAsyncContextManager[Any]],
        body: Callable[[Any], Coroutine[Any, Any, T]],
        *,
        blocking: bool,
    ) -> T:
        """Run a body with what lives here: `make` gives it to the first who asks, and it stays until `close`."""

        async def with_resident() -> T:
            if self._resident is None:
                self._resident = asyncio.ensure_future(self._enter(make))
            try:
                resident = await asyncio.shield(self._resident)
            except Exception:
                self._resident = None  # the next one tries again
                raise
            return await body(resident)

        return await self.run(with_resident(), blocking=blocking)

    async def _enter(self, make: Callable[[], AbstractAsyncContextManager[Any]]) -> Any:
        entered: asyncio.Future[Any] = self._loop.create_future()

        async def stay() -> None:  # one task enters and leaves: some context managers insist on it
            try:
                async with make() as resident:
                    entered.set_result(resident)
                    await self._loop.create_future()
            except BaseException as error:
                if not entered.done():
                    entered.set_exception(error)
                elif isinstance(error, asyncio.CancelledError):
                    raise
                else:
                    logger.debug("what lived on a private loop ended with %r", error)

        self._stay = asyncio.ensure_future(stay())
        return await entered

    def close(self, patience: float = 5.0) -> None:
        """Cancel what runs there, end the loop and its thread."""
        if self._process != os.getpid():
            return
        with self._lock:
            if not self._closing:  # a second stop would interrupt the tidying up
                self._closing = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(patience)


def _is_cancelled() -> bool:
    """Whether somebody asked the running task to stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def run_loop(body: Coroutine[Any, Any, T]) -> T:
    """Run a server's coroutine to its end in this thread, with a loop of its own."""
    return asyncio.run(body)


# -- executors, for code that was written for LangChain's


class ContextThreadPoolExecutor(ThreadPoolExecutor):
    """A pool of threads whose jobs see the context variables of whoever submits them."""

    def submit(  # type: ignore[override]  # the standard library takes a ParamSpec
        self, func: Callable[..., T], *args: Any, **kwargs: Any
    ) -> Future[T]:
        """Run a function in a thread, in a copy of the caller's context."""
        return super().submit(copy_context().run, func, *args, **kwargs)

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], **kwargs: Any) -> Iterator[T]:
        """Run a function for the items in threads, each in a copy of the caller's context."""
        outer = copy_context()
        return super().map(lambda *args: outer.copy().run(fn, *args), *iterables, **kwargs)


async def in_executor(executor: object, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run a blocking function in an executor, or in a thread of our own where none is given."""
    if not isinstance(executor, Executor):
        result: T = await in_thread(function, *args, **kwargs)
        return result
    context = copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor, lambda: context.run(function, *args, **kwargs))
