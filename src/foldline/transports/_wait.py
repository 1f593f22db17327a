"""Async waiting with a time limit.

`DeadlineTimer` ends the waits of the native transport on a loop. `Alarm` interrupts a task that waits in code of other
libraries; its timer is set once per response and moved by assigning a number, because an `asyncio.timeout` around every
chunk costs half as much as reading the chunk.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Expired(Exception):
    """A time limit has expired."""


class DeadlineTimer:
    """One timer for all waiting futures of a loop; they fail with `Expired` at their deadlines.

    A timer for each would cost more than reading a short answer, and the loop keeps cancelled timers for a while.
    """

    __slots__ = ("_deadlines", "_handle", "_loop", "_when")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadlines: dict[asyncio.Future[None], float] = {}
        self._handle: asyncio.TimerHandle | None = None
        self._when = math.inf

    def watch(self, future: asyncio.Future[None], seconds: float) -> None:
        """Let a future fail after the seconds; call `leave` when it no longer waits."""
        self._deadlines[future] = deadline = self._loop.time() + seconds
        if deadline < self._when:
            self._set(deadline)

    def leave(self, future: asyncio.Future[None]) -> None:
        """Remove a future. The timer is kept: it is probably early enough for the next one."""
        self._deadlines.pop(future, None)

    def close(self) -> None:
        """Cancel the timer, unless a future is waiting."""
        if not self._deadlines:
            self._stop()

    def _stop(self) -> None:
        self._when = math.inf
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _set(self, when: float) -> None:
        self._stop()
        self._when = when
        self._handle = self._loop.call_at(when, self._expire)

    def _expire(self) -> None:
        self._stop()
        now = self._loop.time()
        for future in [waiting for waiting, deadline in self._deadlines.items() if deadline <= now]:
            del self._deadlines[future]
            if not future.done():
                future.set_exception(Expired())
        if self._deadlines:
            self._set(min(self._deadlines.values()))


class Alarm:
    """Interrupts the waits of one task at their deadlines; a cancellation from outside has priority."""

    __slots__ = ("_deadline", "_handle", "_has_expired", "_loop", "_task")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._deadline = 0.0
        self._has_expired = False

    async def wait(self, work: Coroutine[Any, Any, T], seconds: float | None) -> T:
        """Wait for `work`; raise `Expired` after the seconds."""
        if seconds is None:
            return await work
        self._deadline = deadline = self._loop.time() + seconds
        if self._handle is None or self._handle.when() > deadline:
            self._set(deadline)
        self._task = task = asyncio.current_task()
        cancel_count = task.cancelling() if task else 0
        try:
            return await work
        except asyncio.CancelledError:
            if self._has_expired and task is not None:
                self._has_expired = False
                if task.uncancel() <= cancel_count:
                    raise Expired from None
            raise
        finally:
            self._task = None

    def stop(self) -> None:
        """Cancel the timer."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _set(self, when: float) -> None:
        self.stop()
        self._handle = self._loop.call_at(when, self._expire)

    def _expire(self) -> None:
        self._handle = None
        if self._task is None:
            return  # between two reads; the next one sets the timer again
        if self._loop.time() < self._deadline:
            self._set(self._deadline)
            return
        self._has_expired = True
        self._task.cancel()
