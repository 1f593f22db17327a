"""Usage scopes: limits and totals of what the model calls inside a block spend.

    with usage_scope(Limits(total_tokens=10_000, model_calls=20, timeout=60)) as usage:
        ...

A scope is in a context variable, so it reaches the threads and tasks of a batch; scopes nest, and usage inside counts
outside too. A call reserves before it starts: one call, its input, and the output it may have. A call that does not fit
next to the running ones waits for them; one that cannot fit raises `BudgetExceeded`.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, cast

from foldline._io import Channel, mutex
from foldline._io.deadline import call_deadline
from foldline._lazy import publish
from foldline.exceptions import BudgetExceeded, UsageError
from foldline.messages.usage import UsageMetadata, add_usage

__all__ = [
    "LIMITED_COUNTERS",
    "NO_LIMITS",
    "SCOPE",
    "Due",
    "Ledger",
    "Limits",
    "Share",
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
    """Requests to a model, including failed and repeated ones."""
    cost: float | None = None
    """By the prices of the models' profiles, else of `foldline.prices`: in dollars, unless you set others."""
    timeout: float | None = None
    """Seconds from the start of the scope; running calls are cancelled."""

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


class Ledger(Protocol):
    """An account outside of the scope, such as the budget of a key that several processes share.

    Every request of a model or of embeddings inside the scope is held here before it is sent, by an estimate, and
    settled after it, however it ends. The methods may wait; an async call runs them in a thread.
    """

    def reserve(self, tokens: int, cost: float | None) -> object:
        """Hold an estimate and return the hold; raise `BudgetExceeded` if not enough is left.

        The cost is None where the prices are unknown. If the error has `patience`, other requests may leave room: it is
        called again, for so many seconds.
        """

    def settle(self, hold: Any, tokens: int | None, cost: float | None) -> None:  # noqa: ANN401  what `reserve` returned
        """Replace a hold by what the request took; None where it is unknown: the estimate then counts.

        What a request took that broke off is counted by its input and by the characters that were received.

        It is called again for the same hold if it raised.
        """


class Due(NamedTuple):
    """A hold of a ledger that is over, and what the request took."""

    ledger: Ledger
    hold: object
    tokens: int | None
    cost: float | None


@dataclass(slots=True, eq=False)
class Share:
    """What a running call may still spend."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    scopes: tuple[UsageScope, ...] = ()
    holds: list[tuple[UsageScope, object]] = field(default_factory=list)
    """The scopes with a ledger, and what each ledger holds."""

    def of(self, name: str) -> float:
        """Return the reserved amount of one counter."""
        if name == "total_tokens":
            return self.input_tokens + self.output_tokens
        return cast("float", getattr(self, name, 0))

    def add(self, other: Share, sign: int = 1) -> None:
        """Add the amounts of another share, or subtract them."""
        self.input_tokens += sign * other.input_tokens
        self.output_tokens += sign * other.output_tokens
        self.cost += sign * other.cost


class WaitingLine:
    """The calls that wait for a share of a scope, first come, first served; only the first one polls."""

    __slots__ = ("_channels", "_polled_at")

    def __init__(self) -> None:
        self._channels: dict[Channel, None] = {}
        self._polled_at = 0.0

    def is_free_for(self, channel: Channel | None) -> bool:
        """Return whether no call waits before this one, or the first one is stuck; under the lock."""
        # The first one may wait in an event loop that is blocked: then the others must not wait for it.
        now = time.monotonic()
        if next(iter(self._channels), channel) is channel:
            self._polled_at = now
            return True
        return now - self._polled_at > STUCK_SECONDS

    def is_first(self, channel: Channel) -> bool:
        """Return whether no call waits before this one."""
        with scope_lock:
            return next(iter(self._channels), None) is channel

    def join(self, channel: Channel) -> None:
        """Wait behind all others; under the lock."""
        self._channels[channel] = None

    def leave(self, channel: Channel | None) -> None:
        """Stop waiting, and wake the first one."""
        with scope_lock:
            if channel is not None:
                self._channels.pop(channel, None)
            first = next(iter(self._channels), None)
        if first is not None:
            # Only the first: what one call gives back is rarely enough for two, and each would look in vain.
            first.put("look")


LIMITED_COUNTERS = ("input_tokens", "output_tokens", "total_tokens", "cost")
STUCK_SECONDS = 1.0
"""Seconds after which a first call that does not poll (a blocked event loop) is skipped."""
ROUNDING = 1e-12
"""The relative error of adding up thousands of small amounts."""
SCOPE: ContextVar[UsageScope | None] = ContextVar("foldline_usage_scope", default=None)


@dataclass(slots=True, eq=False)
class UsageScope:
    """The usage inside a block so far."""

    limits: Limits = field(default_factory=Limits)
    parent: UsageScope | None = None
    usage: UsageMetadata = field(default_factory=NO_USAGE.copy)
    model_calls: int = 0
    known_cost: float = 0.0
    """The cost of the calls whose price is known."""
    unpriced_calls: int = 0
    """Calls of unknown cost."""
    assumed_cost: float = 0.0
    """What calls of unknown cost count for in `Limits(cost=…)`: the amounts reserved for them."""
    started: float = field(default_factory=time.monotonic)
    under_way: set[Share] = field(default_factory=set)
    reserved: Share = field(default_factory=lambda: Share())
    """The sums of the running calls."""
    settled_calls: int = 0
    """Calls of known usage."""
    largest_output: int = 0
    largest_excess: int = 0
    """The largest error of a count of input tokens that was too low."""
    line: WaitingLine = field(default_factory=lambda: WaitingLine())
    ledger: Ledger | None = None
    dues: list[Due] = field(default_factory=list)
    """What the ledger has not been told yet."""
    is_over: bool = False
    """Whether its block has ended; a call may outlive it."""
    is_limited: bool = field(init=False)
    """Whether this scope or one around it has a limit; else calls are only counted."""

    def __post_init__(self) -> None:
        is_inside = self.parent is not None and self.parent.is_limited
        self.is_limited = is_inside or self.limits != NO_LIMITS or self.ledger is not None

    def __repr__(self) -> str:
        """Return the usage as text."""
        return f"UsageScope({self.model_calls} model calls, {self.usage!r}, cost={self.cost})"

    def _repr_html_(self) -> str:
        from foldline._display.messages import usage_html  # noqa: PLC0415  for notebooks only

        cost = "unknown" if self.cost is None else self.cost
        return usage_html({"model_calls": self.model_calls, **self.usage, "cost": cost})

    @property
    def cost(self) -> float | None:
        """The cost of the calls; None, and not 0, if the price of one of them is unknown."""
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

    def settle_dues(self) -> None:
        """Tell the ledger what it has not been told yet; what it does not take stays due, and raises at the end."""
        # Taken under the lock and told outside of it: a ledger may wait for a network.
        with scope_lock:
            dues, self.dues = self.dues, []
        problem: Exception | None = None
        for due in dues:
            try:
                due.ledger.settle(due.hold, due.tokens, due.cost)
            except Exception as error:  # noqa: BLE001  of a program's ledger; raised below
                problem = problem or error
                with scope_lock:
                    self.dues.append(due)
        if problem is not None:
            raise problem

    def used(self, name: str) -> float:
        """Return the amount that counts against a limit."""
        if name == "cost":
            # Against a limit a call of unknown cost counts as its estimate: as nothing, it would get around the limit.
            return self.known_cost + self.assumed_cost
        return cast("float", getattr(self, name))

    def check(self, name: str, extra: float = 0) -> None:
        """Raise if a counter, plus `extra`, exceeds its limit."""
        limit = self.limits.of(name)
        used = self.used(name)
        if limit is not None and used + extra > limit * (1 + ROUNDING):
            needed = f", and this call needs {_format_number(extra)} more" if extra else ""
            raise BudgetExceeded(
                f"{name} used {_format_number(used)} of the {_format_number(limit)} this usage_scope allows"
                f"{needed}: raise the limit, or spend less",
                used=used + extra,
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
    """Return the seconds until the first deadline of the scopes around this code; None if there is none."""
    scope = SCOPE.get()
    if scope is None:
        return None
    remaining_times = [
        enclosing_scope.limits.timeout - enclosing_scope.elapsed
        for enclosing_scope in scope.chain()
        if enclosing_scope.limits.timeout is not None
    ]
    return min(remaining_times) if remaining_times else None


@contextmanager
def usage_scope(
    limits: Limits | None = None, *, ledger: Ledger | None = None, **kwargs: Any
) -> Generator[UsageScope, None, None]:
    """Count and limit what the model calls inside the block spend; `usage_scope(model_calls=3)` works too.

    A `ledger` holds and settles every request too: for budgets that other processes share.
    """
    if limits is not None and kwargs:
        raise UsageError("usage_scope takes Limits(...) or keyword arguments, not both")
    scope = UsageScope(limits or Limits(**kwargs), SCOPE.get(), ledger=ledger)
    token = SCOPE.set(scope)
    try:
        try:
            with call_deadline(scope.limits.timeout):
                yield scope
        finally:
            SCOPE.reset(token)
            scope.is_over = True  # first: a call that ends meanwhile settles itself
    except BaseException as error:
        try:
            scope.settle_dues()
        except Exception as problem:  # noqa: BLE001  the error of the block counts
            error.add_note(f"and a ledger could not be settled: {problem!r}")
        raise
    scope.settle_dues()


def _format_number(number: float) -> str:
    return f"{number:g}" if number % 1 else str(int(number))


publish("foldline.language_models", Ledger, Limits, current_usage, usage_scope)
