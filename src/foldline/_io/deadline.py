"""The deadline of the running call, for code that waits below the layers that know budgets and timeouts."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["call_deadline", "seconds_left"]

_DEADLINE: Final[ContextVar[float | None]] = ContextVar("foldline_deadline", default=None)


@contextmanager
def call_deadline(seconds: float | None) -> Generator[None, None, None]:
    """Bound the waits of a block; a deadline that is already nearer stays."""
    nearer = _DEADLINE.get()
    if seconds is not None:
        deadline = time.monotonic() + seconds
        nearer = deadline if nearer is None else min(deadline, nearer)
    token = _DEADLINE.set(nearer)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float | None:
    """Return the seconds until the deadline of the running call, at least 0; None if it has none."""
    deadline = _DEADLINE.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())
