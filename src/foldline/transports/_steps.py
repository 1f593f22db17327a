"""What the steps of a request over the native transport's wires are made of: sides, clocks, and why one failed."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from foldline.exceptions import FoldlineError
from foldline.transports import _faults
from foldline.transports._http1 import BadHttp, CutShort, HeadTooLarge, Reader
from foldline.transports._pool import Pool, W
from foldline.transports._wait import DeadlineTimer, Expired
from foldline.transports._wires import AsyncWire
from foldline.transports.base import Request

S = TypeVar("S", threading.Semaphore, asyncio.Semaphore)
Head = tuple[int, Iterable[tuple[str, str]]]


@dataclass(slots=True)
class Side(Generic[W, S]):
    """What the sync calls, or the calls of one loop, share: idle connections and slots."""

    pool: Pool[W]
    slots: S | None
    patience: float


@dataclass(slots=True)
class LoopSide(Side[AsyncWire, asyncio.Semaphore]):
    """What the calls on one loop share."""

    timer: DeadlineTimer = field(default_factory=DeadlineTimer)


class Budget:
    """Seconds left of a start that has several steps."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """Return the seconds left, never less than none."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def at_most(self, seconds: float | None) -> float | None:
        """Return the seconds left, but no more than these."""
        left = self.left()
        return seconds if left is None else left if seconds is None else min(left, seconds)


STEP_FAILURES = (HeadTooLarge, BadHttp, CutShort, OSError)
"""What a step may fail with, for `explain_failure`."""


def explain_failure(request: Request, error: Exception, *, started: bool) -> FoldlineError:
    """Say in foldline's words why a step failed."""
    if isinstance(error, HeadTooLarge):
        return _faults.too_large(request, "the headers", request.limits.headers)
    if isinstance(error, BadHttp):
        return _faults.malformed(request, str(error), error.excerpt)
    if isinstance(error, ssl.SSLCertVerificationError):
        return _faults.untrusted(request, error)
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    fault = _faults.interrupted if started else _faults.not_reached
    return fault(request, why)


@contextmanager
def limit_connecting(request: Request, budget: Budget) -> Iterator[None]:
    """Tell the clock of connecting from the clock of the call."""
    try:
        yield
    except Expired:
        left, limit = budget.left(), request.timeouts.connect
        if limit is None or left == 0.0:
            raise
        raise _faults.timed_out(request, "connect", limit) from None


def check_tunnel(reader: Reader) -> None:
    """Check what a proxy said to CONNECT."""
    if reader.status != 200:
        raise CutShort(f"the proxy answered {reader.status}")


def raise_closed_by_proxy() -> bytes:
    """Say that a proxy gave nothing, where an answer of its own was waited for."""
    raise CutShort("the proxy closed the connection")
