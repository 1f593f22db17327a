"""Waiting no longer than the usage scopes around a call allow.

An async call is cancelled. A sync one cannot be: its step runs in a thread, which is abandoned when the time is over,
and closes its source as soon as the step returns.
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
from foldline.language_models._call.policies.usage_scope import current_usage, time_left
from foldline.rate_limiters import BaseRateLimiter

END = object()
LIMITER_POLL_SECONDS = 0.02
"""Seconds between two attempts at a rate limiter if a usage scope has a deadline."""


def check_time() -> None:
    """Raise if the time of a scope around this code is over."""
    scope = current_usage()
    for enclosing_scope in scope.chain() if scope is not None else ():
        enclosing_scope.check_time()


async def wait_within_deadline(body: Coroutine[Any, Any, Any], io: IO) -> Any:  # noqa: ANN401  the result of the body
    """Wait for a body until the first deadline of the scopes around this code."""
    remaining_seconds = time_left()
    if remaining_seconds is None:
        return await body
    try:
        result = await io.bounded(max(remaining_seconds, 0.001), body)
    except (OutOfTime, ModelTimeoutError):
        check_time()
        raise
    check_time()
    return result


async def pause(seconds: float, io: IO) -> None:
    """Sleep, but not beyond the deadline: then raise."""
    remaining_seconds = time_left()
    await io.sleep(
        seconds if remaining_seconds is None else max(0.0, min(seconds, remaining_seconds))
    )
    check_time()


async def wait_for_rate_limit(limiter: BaseRateLimiter, io: IO) -> None:
    """Wait until a rate limiter allows a request, but not beyond the deadline."""
    has_deadline = time_left() is not None
    while True:
        if io.blocking:
            is_free = limiter.acquire(blocking=not has_deadline)
        else:
            is_free = await limiter.aacquire(blocking=not has_deadline)
        if is_free or not has_deadline:
            return
        await pause(LIMITER_POLL_SECONDS, io)


async def bounded_source(
    source: AsyncGenerator[Any, None], io: IO, step: Callable[[], AbstractContextManager[None]]
) -> AsyncGenerator[Any, None]:
    """Yield the items of a source, each inside `step()` and with a wait that ends at the deadline."""
    async with aclosing(_BoundedSource(source, io)) as bounded:
        while True:
            with step():
                item = await bounded.next_item()
            if item is END:
                return
            yield item


class _BoundedSource:
    """A source whose steps end in time; a sync step that hangs is left to its thread."""

    def __init__(self, source: AsyncGenerator[Any, None], io: IO) -> None:
        self._source = source
        self._io = io
        self._context: Context | None = None
        """The context of sync steps: one for all, so that an author may set and reset a variable around a `yield`."""
        self._lock = mutex()
        self._is_running = self._is_closed = False

    async def next_item(self) -> object:
        """Return the next event, or END."""
        if time_left() is None:
            return await anext(self._source, END)
        if not self._io.blocking:
            return await wait_within_deadline(_next_of(self._source), self._io)
        self._context = self._context or copy_context()
        self._is_running = True
        return await wait_within_deadline(self._step(self._context), self._io)

    async def _step(self, context: Context) -> Any:  # noqa: ANN401  the result of the body
        try:
            return context.run(drive, _next_of(self._source))
        finally:
            with self._lock:
                self._is_running = False
                is_left = self._is_closed
            if is_left:
                context.run(drive, self._source.aclose())

    async def aclose(self) -> None:
        """Close the source, now or when the step that hangs has returned."""
        with self._lock:
            self._is_closed = True
            if self._is_running:
                return
        if self._context is None:
            await self._source.aclose()
        else:
            self._context.run(drive, self._source.aclose())


async def _next_of(source: AsyncGenerator[Any, None]) -> object:
    return await anext(source, END)
