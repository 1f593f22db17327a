"""What an HTTP server waits with: worker threads, a notice that wakes many tasks, background tasks, a cancelling watch.

A server is async only, so these have no sync version.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from socket import socket
from ssl import SSLContext
from types import TracebackType
from typing import Any, Generic, TypeVar

from foldline._io.timers import Timers

__all__ = [
    "BackgroundTask",
    "CancelWhen",
    "Cancelled",
    "Notice",
    "TimedSteps",
    "Workers",
    "accept_last",
    "join_all",
]

T = TypeVar("T")
Cancelled = asyncio.CancelledError
"""The exception of a cancelled body."""


class Workers:
    """A fixed number of threads for blocking functions."""

    def __init__(self, count: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(count, name)

    async def call(self, function: Callable[..., T], *values: Any) -> T:
        """Call a function in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *values)

    def close(self) -> None:
        """Wait for the current calls, and end the threads."""
        self._threads.shutdown(wait=True)


class Notice:
    """Wakes every task that waits for it; each may wait with a timeout."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def set(self) -> None:
        """Wake all current waiters."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _wake(waiter)

    async def wait(self, timers: Timers | None = None, seconds: float | None = None) -> None:
        """Wait for the next `set`, or until the timeout."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if timers is None or seconds is None:
            await waiter
            return
        number = timers.add(seconds, lambda: _wake(waiter))
        try:
            await waiter
        finally:
            timers.remove(number)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class TimedSteps(Generic[T]):
    """Awaits a body, and calls back with the seconds of a step that holds the event loop for too long."""

    __slots__ = ("_body", "_longest", "_on_slow")

    def __init__(
        self, body: Awaitable[T], longest: float, on_slow: Callable[[float], object]
    ) -> None:
        self._body = body
        self._longest = longest
        self._on_slow = on_slow

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._body.__await__()
        error: BaseException | None = None
        while True:
            begin = time.perf_counter()
            try:
                waited = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                seconds = time.perf_counter() - begin
                if seconds > self._longest:
                    self._on_slow(seconds)
            error = None
            try:
                yield waited
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as thrown:  # a cancellation, for the body
                error = thrown


class BackgroundTask:
    """A body that runs concurrently with its starter.

    With `is_of_server` it has a context of its own: the first request may start it, and it goes on after that.
    """

    __slots__ = ("_task",)

    def __init__(self, body: Coroutine[Any, Any, Any], *, is_of_server: bool = False) -> None:
        context = Context() if is_of_server else None
        self._task = asyncio.get_running_loop().create_task(body, context=context)

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._task.done()

    def cancel(self) -> None:
        """Ask it to stop."""
        self._task.cancel()

    async def join(self) -> None:
        """Wait for its end; ignore its result and its error."""
        await asyncio.gather(self._task, return_exceptions=True)


async def join_all(tasks: Iterable[BackgroundTask]) -> None:
    """Wait for all of them to end."""
    for task in tasks:
        await task.join()


async def accept_last(
    listener: socket, make_protocol: Callable[[], asyncio.BaseProtocol], ssl: SSLContext | None
) -> None:
    """Accept the connections that wait at a listening socket, and close it: none of them is reset."""
    loop = asyncio.get_running_loop()
    connections: list[socket] = []
    listener.settimeout(0)
    with (
        listener,
        suppress(OSError),
    ):  # there is no other; nothing may be done between this and the close
        while True:
            connections.append(listener.accept()[0])
    for connection in connections:
        connection.settimeout(0)
        with suppress(OSError):  # it was closed meanwhile
            await loop.connect_accepted_socket(make_protocol, connection, ssl=ssl)


class CancelWhen:
    """Cancels the body inside it when a watcher ends; `has_fired` is then True, and nothing is raised outside.

    ```python {test="skip: a part of a body"}
    async with CancelWhen(client_left) as watch:
        await run.ended()
    if watch.has_fired: ...
    ```
    """

    def __init__(self, watcher: Callable[[], Awaitable[None]]) -> None:
        self._watcher = watcher
        self._is_over = False
        self.has_fired = False

    async def __aenter__(self) -> CancelWhen:
        self._task = asyncio.current_task()
        self._watch = asyncio.get_running_loop().create_task(self._run_watcher())
        return self

    async def _run_watcher(self) -> None:
        await self._watcher()
        self.fire()

    def fire(self) -> None:
        """Cancel the body now."""
        if not self._is_over and self._task is not None:
            self.has_fired = True
            self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._is_over = True
        if not self._watch.done():
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        is_ours = self.has_fired and isinstance(error, asyncio.CancelledError)
        # If the body was cancelled by others too, that cancellation stays.
        return is_ours and self._task is not None and self._task.uncancel() == 0
