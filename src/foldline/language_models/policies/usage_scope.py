"""Usage scopes: what the model calls inside a block may spend together, and what they have spent.

    with usage_scope(Limits(total_tokens=10_000, model_calls=20, timeout=60)) as usage:
        ...

A scope is found through a context variable, so it reaches the threads and tasks of a batch; scopes nest, and what is
spent inside counts outside too. A call reserves before it starts: its share of the calls, its input, and what it may
say. A call that would not fit beside those under way waits for them; one that cannot fit raises `BudgetExceeded`.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, cast

from foldline._io import Channel, mutex
from foldline.exceptions import BudgetExceeded, UsageError
from foldline.messages.usage import UsageMetadata, add_usage

__all__ = [
    "COUNTED",
    "NO_LIMITS",
    "SCOPE",
    "Limits",
    "Reservation",
    "UsageScope",
    "current_usage",
    "scope_lock",
    "time_left",
    "usage_scope",
]

scope_lock: AbstractContextManager[Any] = mutex()
"""Held while the sums of scopes change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the calls of a scope may spend together; None for no limit."""

    total_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    model_calls: int | None = None
    """Requests to a model, failed and repeated ones included."""
    cost: float | None = None
    """By the prices of the models' profiles, else of `foldline.prices`: dollars, unless your prices say otherwise."""
    timeout: float | None = None
    """Seconds from the start of the scope; calls under way are cancelled."""

    def __post_init__(self) -> None:
        for name in (
            "total_tokens",
            "input_tokens",
            "output_tokens",
            "model_calls",
            "cost",
            "timeout",
        ):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value < 0):
                raise UsageError(f"Limits({name}={value!r}): a number from 0, or None for no limit")

    def of(self, name: str) -> float | None:
        """Return the limit of one counter."""
        return cast("float | None", getattr(self, name))


NO_LIMITS: Final = Limits()
NO_USAGE: Final = add_usage(None, None)


@dataclass(slots=True, eq=False)
class Reservation:
    """What a call under way may still spend."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    scopes: tuple[UsageScope, ...] = ()

    def of(self, name: str) -> float:
        """Return the reserved amount of one counter."""
        if name == "total_tokens":
            return self.input_tokens + self.output_tokens
        return cast("float", getattr(self, name, 0))

    def add(self, other: Reservation, sign: int = 1) -> None:
        """Add another one's amounts, or take them away."""
        self.input_tokens += sign * other.input_tokens
        self.output_tokens += sign * other.output_tokens
        self.cost += sign * other.cost


class WaitingLine:
    """Who waits for a share of a scope, first come, first served; only the first one looks."""

    __slots__ = ("_channels", "_looked_at")

    def __init__(self) -> None:
        self._channels: dict[Channel, None] = {}
        self._looked_at = 0.0

    def is_free_for(self, channel: Channel | None) -> bool:
        """Whether nobody waits before this one, or the first one is stuck; under the lock."""
        now = time.monotonic()
        if next(iter(self._channels), channel) is channel:
            self._looked_at = now
            return True
        return now - self._looked_at > STUCK

    def is_first(self, channel: Channel) -> bool:
        """Whether nobody waits before this one."""
        with scope_lock:
            return next(iter(self._channels), None) is channel

    def join(self, channel: Channel) -> None:
        """Wait behind all others; under the lock."""
        self._channels[channel] = None

    def leave(self, channel: Channel | None) -> None:
        """Stop waiting; the first one looks."""
        with scope_lock:
            if channel is not None:
                self._channels.pop(channel, None)
            first = next(iter(self._channels), None)
        if first is not None:
            first.put("look")


COUNTED = ("input_tokens", "output_tokens", "total_tokens", "cost")
STUCK = 1.0
"""Seconds after which a first one that does not look (a blocked event loop) is passed by."""
ROUNDING = 1e-12
"""What adding up thousands of small amounts may be off by."""
SCOPE: ContextVar[UsageScope | None] = ContextVar("foldline_usage_scope", default=None)


@dataclass(slots=True, eq=False)
class UsageScope:
    """What was spent inside a block, so far."""

    limits: Limits = field(default_factory=Limits)
    parent: UsageScope | None = None
    usage: UsageMetadata = field(default_factory=NO_USAGE.copy)
    model_calls: int = 0
    known_cost: float = 0.0
    """What the calls whose price is known have cost."""
    unpriced_calls: int = 0
    """Calls of which it is not known what they cost."""
    assumed_cost: float = 0.0
    """What calls of unknown cost count for in `Limits(cost=…)`: what was reserved for them."""
    started: float = field(default_factory=time.monotonic)
    under_way: set[Reservation] = field(default_factory=set)
    reserved: Reservation = field(default_factory=lambda: Reservation())
    """The sums of what is under way."""
    settled_calls: int = 0
    """Calls of which it is known what they used."""
    largest_output: int = 0
    largest_excess: int = 0
    """By how much the input of a call was counted too low, at most."""
    line: WaitingLine = field(default_factory=lambda: WaitingLine())
    is_limited: bool = field(init=False)
    """Whether this scope or one around it has a limit; else calls are only counted."""

    def __post_init__(self) -> None:
        is_inside = self.parent is not None and self.parent.is_limited
        self.is_limited = is_inside or self.limits != NO_LIMITS

    def __repr__(self) -> str:
        """Say what was spent."""
        return f"UsageScope({self.model_calls} model calls, {self.usage!r}, cost={self.cost})"

    def _repr_html_(self) -> str:
        from foldline._display.messages import usage_html  # noqa: PLC0415  for notebooks only

        cost = "unknown" if self.cost is None else self.cost
        return usage_html({"model_calls": self.model_calls, **self.usage, "cost": cost})

    @property
    def cost(self) -> float | None:
        """What the calls have cost; None, and not 0, where the price of one of them is not known."""
        return None if self.unpriced_calls else self.known_cost

    @property
    def input_tokens(self) -> int:
        """Tokens sent, cached ones included."""
        return self.usage["input_tokens"]

    @property
    def output_tokens(self) -> int:
        """Tokens received."""
        return self.usage["output_tokens"]

    @property
    def total_tokens(self) -> int:
        """Tokens both ways."""
        return self.usage["total_tokens"]

    @property
    def elapsed(self) -> float:
        """Seconds since the block began."""
        return time.monotonic() - self.started

    def chain(self) -> Iterator[UsageScope]:
        """Return this scope and those around it."""
        scope: UsageScope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def used(self, name: str) -> float:
        """Return what counts against a limit."""
        if name == "cost":
            return self.known_cost + self.assumed_cost
        return cast("float", getattr(self, name))

    def check(self, name: str, more: float = 0) -> None:
        """Raise if a counter, with `more`, is past its limit."""
        limit = self.limits.of(name)
        used = self.used(name)
        if limit is not None and used + more > limit * (1 + ROUNDING):
            asked = f", and this call needs {_plain(more)} more" if more else ""
            raise BudgetExceeded(
                f"{name} used {_plain(used)} of the {_plain(limit)} this usage_scope allows{asked}: raise the limit, "
                "or spend less",
                used=used + more,
                limit=limit,
            )

    def check_time(self) -> None:
        """Raise if the scope's time is over."""
        limit = self.limits.timeout
        if limit is not None and (used := self.elapsed) >= limit:
            raise BudgetExceeded(
                f"the {limit} s of this usage_scope are over: raise Limits(timeout=…), or ask for less",
                used=used,
                limit=limit,
            )


def current_usage() -> UsageScope | None:
    """Return the scope this code runs in, if any."""
    return SCOPE.get()


def time_left() -> float | None:
    """Return the seconds until the first deadline of the scopes around this code; None where none has one."""
    scope = SCOPE.get()
    if scope is None:
        return None
    left = [
        one.limits.timeout - one.elapsed for one in scope.chain() if one.limits.timeout is not None
    ]
    return min(left) if left else None


@contextmanager
def usage_scope(limits: Limits | None = None, **kwargs: Any) -> Generator[UsageScope, None, None]:
    """Count and bound what the model calls inside the block spend; `usage_scope(model_calls=3)` works too."""
    if limits is not None and kwargs:
        raise UsageError("usage_scope takes Limits(...) or keyword arguments, not both")
    scope = UsageScope(limits or Limits(**kwargs), SCOPE.get())
    token = SCOPE.set(scope)
    try:
        yield scope
    finally:
        SCOPE.reset(token)


def _plain(number: float) -> str:
    return f"{number:g}" if number % 1 else str(int(number))
