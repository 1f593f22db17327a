"""Retries: how long to wait before the next attempt, and who of several callers may make it.

`Backoff` is the only formula of waits: every place that retries makes one from its own parameters.

Code inside an owner does not retry the errors that the owner retries. The owner is in a context variable, so it reaches
threads and tasks that the call starts. It stops owning when its first output is delivered, because after that it would
not retry.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import TypeAlias

RETRY_AFTER_CAP = 60.0
"""The longest Retry-After in seconds that is honoured; a longer one is raised with its value."""

Jitter: TypeAlias = Callable[[float], float]
"""Returns the seconds to wait for those of the formula: chance spreads callers that failed together."""


def shrunk(share: float) -> Jitter:
    """Return a jitter that waits between this share of the seconds and all of them."""
    return lambda seconds: seconds * random.uniform(share, 1.0)


def around(share: float) -> Jitter:
    """Return a jitter that waits up to this share less or more."""
    return lambda seconds: seconds * random.uniform(1.0 - share, 1.0 + share)


def added(most: float) -> Jitter:
    """Return a jitter that waits up to these seconds more."""
    return lambda seconds: seconds + random.uniform(0.0, most)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow by a factor from attempt to attempt, up to the longest."""

    initial: float
    factor: float = 2.0
    longest: float = 30.0
    shortest: float = 0.0
    jitter: Jitter | None = None

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        """Return the seconds to wait after failed attempt `attempt` (from 1); a server's wish comes first."""
        if retry_after is not None:
            return max(0.0, float(retry_after))
        seconds = max(self.shortest, min(self.longest, self._grown(attempt)))
        return seconds if self.jitter is None else max(0.0, self.jitter(seconds))

    def _grown(self, attempt: int) -> float:
        try:
            return float(self.initial * self.factor ** (attempt - 1))
        except OverflowError:  # after a thousand attempts
            return math.inf if self.initial else 0.0


class RetryOwner:
    """An owner of retries; a context manager around each step of what may be retried."""

    __slots__ = ("_handles", "_outer", "_token", "is_active")

    def __init__(self, handles: Callable[[BaseException], bool] | None = None) -> None:
        """Own the errors that `handles` accepts, or all."""
        self._handles = handles
        self._outer = _owner.get()
        self._token: Token[RetryOwner | None] | None = None
        self.is_active: bool = True

    @property
    def outer(self) -> RetryOwner | None:
        """The owner outside this one."""
        return self._outer

    def takes(self, error: BaseException) -> bool:
        """Return whether this owner, or an outer one, decides about this error."""
        if self.is_active and (self._handles is None or self._handles(error)):
            return True
        return self._outer is not None and self._outer.takes(error)

    def __enter__(self) -> None:
        self._token = _owner.set(self)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _owner.reset(self._token)


_owner: ContextVar[RetryOwner | None] = ContextVar("foldline_retry_owner", default=None)


def owning_retries(handles: Callable[[BaseException], bool] | None = None) -> RetryOwner:
    """Return an owner: models called inside its block do not retry."""
    return RetryOwner(handles)


def is_owned(error: BaseException) -> bool:
    """Return whether an owner decides if this error is retried."""
    owner = _owner.get()
    return owner is not None and owner.takes(error)
