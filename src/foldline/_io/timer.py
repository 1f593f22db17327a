"""`Timer`: calls functions again and again, each at its own interval, from one daemon thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from foldline._io.waiting import THREADS
from foldline.utils._signals import block_signals

__all__ = ["TIMER", "Timer", "wait"]


@dataclass(slots=True)
class _Entry:
    seconds: float
    job: Callable[[], None]
    due: float
    is_running: bool = False


class Timer:
    """Calls functions that never raise, each in a thread of its own: one that hangs does not delay the others.

    The thread that looks at the clock runs while there is something to call; it ends at the next look after that.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over: a forked child has none of its parent's threads."""
        self._entries: dict[Hashable, _Entry] = {}
        self._changed = threading.Condition()
        self._wakes_at: float | None = None
        """When the thread looks next; None where there is no thread."""

    @property
    def is_running(self) -> bool:
        """Whether there is a thread."""
        return self._wakes_at is not None

    def add(self, key: Hashable, seconds: float, job: Callable[[], None]) -> None:
        """Call a function every so many seconds, for the first time after them; one with the same key is replaced."""
        due = time.monotonic() + seconds
        with self._changed:
            self._entries[key] = _Entry(seconds, job, due)
            if self._wakes_at is None:
                threading.Thread(target=self._run, name="foldline-timer", daemon=True).start()
                self._wakes_at = due
            elif due < self._wakes_at:
                self._changed.notify()

    def remove(self, key: Hashable) -> None:
        """Call a function no more; a call that has begun goes on."""
        with self._changed:
            self._entries.pop(key, None)

    def _run(self) -> None:
        block_signals()
        while (due := self._next()) is not None:
            for entry in due:
                try:
                    THREADS.submit(lambda entry=entry: _call(entry), has_user_code=False)  # type: ignore[misc]
                except RuntimeError:  # the interpreter ends, and starts no more threads
                    return

    def _next(self) -> list[_Entry] | None:
        """Wait for the next calls; return None where there are none to wait for."""
        with self._changed:
            while self._entries:
                now = time.monotonic()
                due = [entry for entry in self._entries.values() if entry.due <= now]
                for entry in due:
                    entry.due = now + entry.seconds
                ready = [entry for entry in due if not entry.is_running]
                for entry in ready:
                    entry.is_running = True
                if ready:
                    return ready
                self._wakes_at = min(entry.due for entry in self._entries.values())
                self._changed.wait(self._wakes_at - now)
            self._wakes_at = None
            return None


def _call(entry: _Entry) -> None:
    try:
        entry.job()
    finally:
        entry.is_running = False


TIMER: Final = Timer()


def wait(seconds: float) -> None:
    """Block the calling thread, for code below the layers that have an `IO`."""
    time.sleep(seconds)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TIMER.forget)
