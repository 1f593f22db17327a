"""Waiting no longer than the usage scopes around a call allow.

An awaited call is cancelled. A blocking one cannot be: its step runs in a thread, which is left behind when the time is
over, and closes what it reads as soon as it comes back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractContextManager, aclosing
from contextvars import Context, copy_context
from typing import Any

from foldline._io import IO, mutex
from foldline._io.drive import drive
from foldline._io.waiting import OutOfTime
from foldline.exceptions import ModelTimeoutError
from foldline.language_models.policies.usage import current_usage, time_left
from foldline.rate_limiters import BaseRateLimiter

END = object()
LIMITER_LOOK = 0.02
"""Seconds between two looks at a rate limiter where a usage scope has a deadline."""


def check_time() -> None:
    """Raise if the time of a scope around this code is over."""
    scope = current_usage()
    for one in scope.chain() if scope is not None else ():
        one.check_time()


async def within(body: Coroutine[Any, Any, Any], io: IO) -> Any:  # noqa: ANN401  what the body under the deadline returns
    """Wait for a body until the first deadline of the scopes around this code."""
    left = time_left()
    if left is None:
        return await body
    try:
        result = await io.bounded(max(left, 0.001), body)
    except (OutOfTime, ModelTimeoutError):
        check_time()
        raise
    check_time()
    return result


async def pause(seconds: float, io: IO) -> None:
    """Sleep, but not beyond the deadline: that raises."""
    left = time_left()
    await io.sleep(seconds if left is None else max(0.0, min(seconds, left)))
    check_time()


async def wait_for_rate_limit(limiter: BaseRateLimiter, io: IO) -> None:
    """Wait until a rate limiter lets a request through, but not beyond the deadline."""
    has_deadline = time_left() is not None
    while True:
        if io.blocking:
            is_free = limiter.acquire(blocking=not has_deadline)
        else:
            is_free = await limiter.aacquire(blocking=not has_deadline)
        if is_free or not has_deadline:
            return
        await pause(LIMITER_LOOK, io)


async def bounded_source(
    source: AsyncGenerator[Any, None], io: IO, step: Callable[[], AbstractContextManager[None]]
) -> AsyncGenerator[Any, None]:
    """Yield what a source does, each item waited for no longer than there is time, inside `step()`."""
    async with aclosing(_BoundedSource(source, io)) as bounded:
        while True:
            with step():
                item = await bounded.next()
            if item is END:
                return
            yield item


class _BoundedSource:
    """A source whose steps end in time; a sync step that hangs is left to its thread."""

    def __init__(self, source: AsyncGenerator[Any, None], io: IO) -> None:
        self._source = source
        self._io = io
        self._context: Context | None = None
        """Where blocking steps run: one for all, so that an author may set and reset a variable around a `yield`."""
        self._lock = mutex()
        self._is_running = self._is_left = False

    async def next(self) -> object:
        """Return the next event, or END."""
        if time_left() is None:
            return await anext(self._source, END)
        if not self._io.blocking:
            return await within(_next_of(self._source), self._io)
        self._context = self._context or copy_context()
        self._is_running = True
        return await within(self._step(self._context), self._io)

    async def _step(self, context: Context) -> Any:  # noqa: ANN401  what the body under the deadline returns
        try:
            return context.run(drive, _next_of(self._source))
        finally:
            with self._lock:
                self._is_running = False
                is_left = self._is_left
            if is_left:
                context.run(drive, self._source.aclose())

    async def aclose(self) -> None:
        """Close the source, now or when the step that hangs has come back."""
        with self._lock:
            self._is_left = True
            if self._is_running:
                return
        if self._context is None:
            await self._source.aclose()
        else:
            self._context.run(drive, self._source.aclose())


async def _next_of(source: AsyncGenerator[Any, None]) -> object:
    return await anext(source, END)
