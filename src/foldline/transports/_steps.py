"""Parts of the native transport's requests: shared connections, time budgets, errors of steps."""

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
from foldline.transports._http1 import BadHttp, CutShort, HeadTooLarge, ResponseReader
from foldline.transports._pool import Pool, W
from foldline.transports._wait import DeadlineTimer, Expired
from foldline.transports._wires import AsyncWire
from foldline.transports.base import Request

S = TypeVar("S", threading.Semaphore, asyncio.Semaphore)
Head = tuple[int, Iterable[tuple[str, str]]]


@dataclass(slots=True)
class SharedConnections(Generic[W, S]):
    """The idle connections and slots that all sync calls, or the calls of one loop, share."""

    pool: Pool[W]
    slots: S | None
    pool_timeout: float


@dataclass(slots=True)
class LoopConnections(SharedConnections[AsyncWire, asyncio.Semaphore]):
    """The connections of one event loop, and its timer."""

    timer: DeadlineTimer = field(default_factory=DeadlineTimer)


class TimeBudget:
    """The remaining seconds of an operation with several steps."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """Return the remaining seconds, at least 0."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def at_most(self, seconds: float | None) -> float | None:
        """Return the remaining seconds, but at most these."""
        remaining = self.left()
        return (
            seconds
            if remaining is None
            else remaining
            if seconds is None
            else min(remaining, seconds)
        )


STEP_FAILURES = (HeadTooLarge, BadHttp, CutShort, OSError)
"""The exceptions of a step, for `explain_failure`."""


def explain_failure(request: Request, error: Exception, *, started: bool) -> FoldlineError:
    """Return foldline's error for the failure of a step."""
    if isinstance(error, HeadTooLarge):
        return _faults.too_large(request, "the headers", request.limits.headers)
    if isinstance(error, BadHttp):
        return _faults.malformed(request, str(error), error.excerpt)
    if isinstance(error, ssl.SSLCertVerificationError):
        return _faults.untrusted(request, error)
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    make_error = _faults.interrupted if started else _faults.not_reached
    return make_error(request, reason)


@contextmanager
def limit_connecting(request: Request, budget: TimeBudget) -> Iterator[None]:
    """Raise the error of the `connect` timeout, unless the call's own timeout has expired."""
    try:
        yield
    except Expired:
        remaining, limit = budget.left(), request.timeouts.connect
        if limit is None or remaining == 0.0:
            raise
        raise _faults.timed_out(request, "connect", limit) from None


def check_tunnel(reader: ResponseReader) -> None:
    """Raise if a proxy refused CONNECT."""
    if reader.status != 200:
        raise CutShort(f"the proxy answered {reader.status}")


def raise_closed_by_proxy() -> bytes:
    """Raise, because a proxy closed the connection instead of answering."""
    raise CutShort("the proxy closed the connection")
