"""What `_io` waits with: threads, tasks, and the bridges between thread and loop.

Threads come from an elastic pool of daemon threads, because `concurrent.futures` has a fixed number of threads and
joins them at exit: eight slow tools would queue on six threads, and a user's function that hangs would hang the
interpreter.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import queue
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
)
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple, TypeGuard, TypeVar, cast

from foldline.utils._signals import block_signals, restore_signals

T = TypeVar("T")
R = TypeVar("R")
logger: logging.Logger = logging.getLogger("foldline")

Around = AbstractContextManager[Any]
"""Entered around each step of a user's code, so it must be reusable."""
UNCHANGED: Around = nullcontext()

IDLE_SECONDS = 0.5
"""Seconds that an idle thread waits for the next job before it ends."""

GRACE_SECONDS = 1.0
"""Seconds that a cancelled task waits for the body that it shielded."""
END = object()


class Outcome(NamedTuple):
    """The outcome of one of several bodies: its position among the items, and a `value` or an `error`."""

    place: int
    value: Any
    error: BaseException | None


async def next_or_end(items: AsyncIterator[T]) -> T | object:
    """Return the next item, or END."""
    return await anext(items, END)


class Threads:
    """Daemon threads that are started when needed and end after `IDLE_SECONDS` without work."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over: a forked child has none of its parent's threads."""
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], bool]] = queue.SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, job: Callable[[], None], *, has_user_code: bool = True) -> None:
        """Run a job that never raises in a thread, soon.

        Signals are not delivered to the thread, unless it runs a user's code (see `foldline.utils._signals`).
        """
        with self._lock:
            self._jobs.put((job, has_user_code))
            if self._idle > 0:
                self._idle -= 1
                return
        threading.Thread(target=self._work, name="foldline", daemon=True).start()

    def _work(self) -> None:
        inherited = block_signals()
        while (entry := self._next()) is not None:
            job, has_user_code = entry
            if has_user_code:
                restore_signals(inherited)
            job()
            if has_user_code:
                block_signals()
            del entry, job
            with self._lock:
                self._idle += 1

    def _next(self) -> tuple[Callable[[], None], bool] | None:
        # A new thread waits like any other: an idle one may have taken the job it was started for.
        while True:
            try:
                return self._jobs.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    # An idle count of 0 means that a submit has reserved this thread: its job is on the way.
                    if self._idle > 0:
                        self._idle -= 1
                        return None


THREADS = Threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=THREADS.forget)


def in_main_thread() -> bool:
    """Return whether signals, and so KeyboardInterrupt, are delivered to this thread."""
    return threading.current_thread() is threading.main_thread()


class OutOfTime(Exception):
    """A body took longer than its limit, which is in `seconds`."""

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

    def wait(self, timeout: float | None = None) -> Any:  # noqa: ANN401  the result of the function
        if not self._done.wait(timeout):
            raise OutOfTime(timeout or 0.0)
        if self._error is not None:
            raise self._error
        return self._value

    async def result(self) -> Any:  # noqa: ANN401  the result of the body
        return self.wait()

    async def end(self) -> BaseException | None:
        self._done.wait()
        return self._error

    def cancel(self) -> bool:
        """Do nothing: a thread cannot be stopped; its outcome is dropped."""
        return False


def is_async_callable(function: object) -> TypeGuard[Callable[..., Awaitable[Any]]]:
    """Return whether calling this returns a coroutine, also for partials and objects with an async `__call__`."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004
    )


async def in_thread(function: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401  the result of the function
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def settle(value: object, error: BaseException | None) -> None:
        if future.done():
            if inspect.iscoroutine(value):  # there is no caller to await it
                value.close()
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
        with suppress(RuntimeError):  # the loop was closed: there is no caller any more
            loop.call_soon_threadsafe(settle, value, failure)

    THREADS.submit(run)
    return await future


class ThreadIterator(AsyncIterator[T]):
    """A user's sync iterator under a loop: each step in a thread, all of them in one context."""

    def __init__(self, items: Iterable[T], around: Around) -> None:
        self._items = items
        self._iterator: Iterator[T] | None = None
        self._busy = threading.Lock()
        with around:
            # One context for all steps: a user's generator sees the variables that it sets.
            self._context = copy_context()

    def _in_context(self, function: Callable[[], R]) -> R:
        with self._busy:  # the context too can be entered by only one thread at a time
            return self._context.run(function)

    def _step(self) -> T | object:
        if self._iterator is None:
            self._iterator = iter(self._items)
        return next(self._iterator, END)

    def _close(self) -> None:
        if inspect.isgenerator(self._iterator):
            self._iterator.close()

    async def __anext__(self) -> T:
        step = await in_thread(self._in_context, self._step)
        if step is END:
            raise StopAsyncIteration
        return cast("T", step)

    async def aclose(self) -> None:
        """Close the user's generator; if we were cancelled during a step, as soon as that step ends."""
        if self._busy.locked():
            THREADS.submit(self._close_quietly)
        elif inspect.isgenerator(self._iterator):
            await in_thread(self._in_context, self._close)

    def _close_quietly(self) -> None:
        try:
            self._in_context(self._close)
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
        if self._closed:
            raise StopIteration
        next_item = self._next()
        try:
            step = asyncio.run_coroutine_threadsafe(next_item, self._loop).result()
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            next_item.close()
            raise StopIteration from None  # the loop has ended: no item can come
        if step is END:
            raise StopIteration
        return cast("T", step)

    async def aclose(self) -> None:
        """End the iteration; cancel the current step."""
        self._closed = True
        if self._step is not None:
            await cancel_all({self._step})


class Task:
    def __init__(self, body: Coroutine[Any, Any, Any]) -> None:
        self._task = asyncio.ensure_future(body)

    async def result(self) -> Any:  # noqa: ANN401  the result of the body
        return await self._task

    async def end(self) -> BaseException | None:
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.exception()

    def cancel(self) -> bool:
        return self._task.cancel()


async def shield(body: Coroutine[Any, Any, T]) -> T:
    """Wait for a body that runs to its end even if the waiting task is cancelled.

    A cancelled task waits a little longer, because a loop that closes would cancel the body; a body that is not done by
    then is cancelled too, so that nothing keeps running.
    """
    task = asyncio.ensure_future(body)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task], timeout=GRACE_SECONDS)
            task.cancel()
        raise


async def cancel_all(tasks: set[asyncio.Task[Any]]) -> None:
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.gather(*pending, return_exceptions=True)


# -- executors, for code that was written for LangChain's


class ContextThreadPoolExecutor(ThreadPoolExecutor):
    """A pool of threads whose jobs see the context variables of the submitter."""

    def submit(  # type: ignore[override]  # the standard library takes a ParamSpec
        self, func: Callable[..., T], *args: Any, **kwargs: Any
    ) -> Future[T]:
        """Run a function in a thread, in a copy of the caller's context."""
        return super().submit(copy_context().run, func, *args, **kwargs)

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], **kwargs: Any) -> Iterator[T]:
        """Run a function for the items in threads, each in a copy of the caller's context."""
        outer = copy_context()
        return super().map(lambda *args: outer.copy().run(fn, *args), *iterables, **kwargs)


async def in_executor(
    executor: object, function: Callable[..., T], *args: object, **kwargs: object
) -> T:
    """Run a blocking function in an executor, or in one of our threads if there is none."""
    if not isinstance(executor, Executor):
        result: T = await in_thread(function, *args, **kwargs)
        return result
    context = copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor, lambda: context.run(function, *args, **kwargs))
