"""Waiting with a limit, in two colours, and the arithmetic of the four clocks.

`Clock` only counts. `Alarm` interrupts a task on an event loop; its timer is set once per response and moved by
writing a number, because an `asyncio.timeout` around every chunk costs half as much as reading the chunk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from weft.transports._faults import Phase
from weft.transports.base import Timeouts

T = TypeVar("T")


class Expired(Exception):
    """The budget of a wait was used up."""


class Clock:
    """How long the next wait may take, and which clock says so."""

    __slots__ = ("phase", "started", "timeouts", "waited")

    def __init__(self, timeouts: Timeouts) -> None:
        self.timeouts = timeouts
        self.started = time.monotonic()
        self.waited = 0.0
        """Seconds waited in reads since the last progress."""
        self.phase: Phase = "first_byte"

    def budget(self, phase: Phase) -> float | None:
        """Give the seconds left for a wait of this phase, the whole call's deadline included."""
        limit = self.timeouts.first_byte if phase == "first_byte" else self.timeouts.idle
        left = None if limit is None else limit - self.waited
        self.phase = phase
        total = self.timeouts.total
        if total is not None:
            rest = total - (time.monotonic() - self.started)
            if left is None or rest <= left:
                self.phase = "total"
                left = rest
        return None if left is None else max(left, 0.0)

    def limit(self, phase: Phase) -> float:
        """Give the seconds that were allowed."""
        return float(getattr(self.timeouts, phase, None) or 0.0)


class Alarm:
    """Interrupts the waits of one task at their deadlines; cancellation from outside always wins."""

    __slots__ = ("_deadline", "_handle", "_loop", "_rung", "_task")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._deadline = 0.0
        self._rung = False

    async def wait(self, work: Coroutine[Any, Any, T], seconds: float | None) -> T:
        """Wait for `work`; raise `Expired` when the seconds are over."""
        if seconds is None:
            return await work
        self._deadline = deadline = self._loop.time() + seconds
        if self._handle is None or self._handle.when() > deadline:
            self._set(deadline)
        self._task = task = asyncio.current_task()
        before = task.cancelling() if task else 0
        try:
            return await work
        except asyncio.CancelledError:
            if self._rung and task is not None:
                self._rung = False
                if task.uncancel() <= before:
                    raise Expired from None
            raise
        finally:
            self._task = None

    def stop(self) -> None:
        """Take the timer off the loop."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _set(self, when: float) -> None:
        self.stop()
        self._handle = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._handle = None
        if self._task is None:
            return  # between two reads; the next one sets the timer again
        if self._loop.time() < self._deadline:
            self._set(self._deadline)
            return
        self._rung = True
        self._task.cancel()


def finish_now(work: Coroutine[Any, Any, T] | Generator[Any, None, T]) -> bool:
    """Step a coroutine that should end at once; say whether it did."""
    try:
        work.send(None)
    except StopIteration:
        return True
    work.close()
    return False
