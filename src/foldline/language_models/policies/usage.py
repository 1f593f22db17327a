"""Usage scopes: what the model calls inside a block may spend together, and what they have spent.

    with usage_scope(Limits(total_tokens=10_000, model_calls=20, timeout=60)) as usage:
        ...

A scope is found through a context variable, so it reaches the threads and tasks of a batch; scopes nest, and what is
spent inside counts outside too. A call reserves before it starts: its share of the calls, its input, and what it may
say. A call that would not fit beside those under way waits for them; one that cannot fit raises `BudgetExceeded`.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

from foldline._io import IO, mutex
from foldline.exceptions import BudgetExceeded, UsageError
from foldline.language_models.call.batch import Batch
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.policies.base import (
    CallContext,
    FoldedAttempt,
    Policy,
    ends_message,
)
from foldline.language_models.profile import Prices
from foldline.messages.usage import UsageMetadata, add_usage

__all__ = [
    "Limits",
    "UsagePolicy",
    "UsageScope",
    "cost_of",
    "current_usage",
    "time_left",
    "usage_scope",
]

FIRST_LOOK, LONGEST_LOOK = 0.001, 0.05
"""Seconds between two looks whether a call under way has made room."""
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the calls of a scope may spend together; None for no limit."""

    total_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    model_calls: int | None = None
    """Requests to a model, failed and repeated ones included."""
    cost: float | None = None
    """By the prices of the models' profiles."""
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
        """Give the limit of one counter."""
        return cast("float | None", getattr(self, name))


@dataclass(slots=True, eq=False)
class Reservation:
    """What a call under way may still spend."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    scopes: tuple[UsageScope, ...] = ()

    def of(self, name: str) -> float:
        """Give the reserved amount of one counter."""
        if name == "total_tokens":
            return self.input_tokens + self.output_tokens
        return cast("float", getattr(self, name, 0))


COUNTED = ("input_tokens", "output_tokens", "total_tokens", "cost")
_lock = mutex()
SCOPE: ContextVar[UsageScope | None] = ContextVar("foldline_usage_scope", default=None)
_holding: ContextVar[tuple[Reservation, ...]] = ContextVar("foldline_reservations", default=())
"""The calls that this code runs inside of: a model that asks another model does not wait for itself."""


@dataclass(slots=True, eq=False)
class UsageScope:
    """What was spent inside a block, so far."""

    limits: Limits = field(default_factory=Limits)
    parent: UsageScope | None = None
    usage: UsageMetadata = field(default_factory=lambda: add_usage(None, None))
    model_calls: int = 0
    cost: float = 0.0
    started: float = field(default_factory=time.monotonic)
    under_way: set[Reservation] = field(default_factory=set)
    largest_output: int = 0

    def __repr__(self) -> str:
        """Say what was spent."""
        return f"UsageScope({self.model_calls} model calls, {self.usage!r}, cost={self.cost})"

    def _repr_html_(self) -> str:
        from foldline._display.messages import usage_html  # noqa: PLC0415  for notebooks only

        return usage_html(
            {"model_calls": self.model_calls, **self.usage, "cost": self.cost or None}
        )

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
        """Give this scope and those around it."""
        scope: UsageScope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def check(self, name: str, more: float = 0) -> None:
        """Raise if a counter, with `more`, is past its limit."""
        limit = self.limits.of(name)
        used = getattr(self, name)
        if limit is not None and used + more > limit:
            asked = f", and this call needs {_shown(more)} more" if more else ""
            raise BudgetExceeded(
                f"{name} used {_shown(used)} of the {_shown(limit)} this usage_scope allows{asked}: raise the limit, "
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
    """Give the scope this code runs in, if any."""
    return SCOPE.get()


def time_left() -> float | None:
    """Give the seconds until the first deadline of the scopes around this code; None where none has one."""
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


def cost_of(usage: Mapping[str, Any] | None, prices: Prices | None) -> float | None:
    """Price a usage; cached input at its own price where there is one. None where the price is not known."""
    if usage is None:
        return None
    if isinstance(known := usage.get("total_cost"), int | float):
        return float(known)
    if not prices or "input" not in prices or "output" not in prices:
        return None
    details = usage.get("input_token_details") or {}
    read, made = details.get("cache_read") or 0, details.get("cache_creation") or 0
    fresh = max(0, usage.get("input_tokens", 0) - read - made)
    sums = (
        fresh * prices["input"],
        read * prices.get("cache_read", prices["input"]),
        made * prices.get("cache_creation", prices["input"]),
        usage.get("output_tokens", 0) * prices["output"],
    )
    return sum(sums) / MILLION


class Spending:
    """The share of one request in the scopes around it: reserved, then settled once."""

    __slots__ = ("_expected", "_input", "_prices", "_reservation", "_where", "scope")

    def __init__(
        self,
        scope: UsageScope,
        input_tokens: int,
        max_tokens: int | None,
        prices: Prices | None,
        where: str,
    ) -> None:
        self.scope = scope
        self._input = input_tokens
        self._expected = max_tokens
        self._prices = prices
        self._where = where
        self._reservation: Reservation | None = None

    async def reserve(self, io: IO) -> None:
        """Take a share of every scope's limits, waiting for calls under way where they leave no room."""
        pause = FIRST_LOOK
        while not self._try():
            for scope in self.scope.chain():
                scope.check_time()
            await io.sleep(pause)
            pause = min(pause * 2, LONGEST_LOOK)

    def _try(self) -> bool:
        held = set(_holding.get())
        with _lock:
            for scope in self.scope.chain():
                scope.check_time()
                scope.check("model_calls", 1)
                self._check_prices(scope)
                scope.check("input_tokens", self._input)
                scope.check("total_tokens", self._input + 1)
                scope.check("output_tokens", 1)
                scope.check("cost", self._cost(self._input, 0))
            if not all(self._fits(scope, held) for scope in self.scope.chain()):
                return False
            output = self._output()
            self._reservation = Reservation(
                self._input, output, self._cost(self._input, output), tuple(self.scope.chain())
            )
            for scope in self._reservation.scopes:
                scope.model_calls += 1
                scope.under_way.add(self._reservation)
        return True

    def _check_prices(self, scope: UsageScope) -> None:
        if scope.limits.cost is not None and cost_of({"input_tokens": 0}, self._prices) is None:
            raise UsageError(
                f"Limits(cost=…) needs the prices of {self._where}: "
                'pass profile={"prices": {"input": …, "output": …}} (per million tokens)'
            )

    def _fits(self, scope: UsageScope, held: set[Reservation]) -> bool:
        others = scope.under_way - held
        if not others:
            return True
        mine = Reservation(self._input, self._output(), self._cost(self._input, self._output()))
        for name in COUNTED:
            limit = scope.limits.of(name)
            if limit is None:
                continue
            reserved = sum(other.of(name) for other in others)
            if getattr(scope, name) + reserved + mine.of(name) > limit:
                return False
        return True

    def _output(self) -> int:
        """What this call may say: its own bound, else twice the longest answer of the scope, else all that is left."""
        if self._expected is not None:
            return self._expected
        if self.scope.largest_output:
            return 2 * self.scope.largest_output
        limits = (
            (scope.limits.of(name), getattr(scope, name))
            for scope in self.scope.chain()
            for name in ("output_tokens", "total_tokens")
        )
        left = [limit - used for limit, used in limits if limit is not None]
        return int(max(0, min(left))) if left else 0

    def _cost(self, given: int, said: int) -> float:
        return cost_of({"input_tokens": given, "output_tokens": said}, self._prices) or 0.0

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Mark that the code inside runs for this call. Never hold it across a `yield` to the caller."""
        reservation = self._reservation
        if reservation is None:
            yield
            return
        token = _holding.set((*_holding.get(), reservation))
        try:
            yield
        finally:
            _holding.reset(token)

    def settle(self, usage: Mapping[str, Any] | None) -> None:
        """Give the reservation back and count what was spent; once."""
        reservation, self._reservation = self._reservation, None
        if reservation is None:
            return
        cost = cost_of(usage, self._prices)
        with _lock:
            for scope in reservation.scopes:
                scope.under_way.discard(reservation)
                if usage:
                    scope.usage = add_usage(scope.usage, cast("UsageMetadata", usage))
                    said = usage.get("output_tokens") or 0
                    scope.largest_output = max(scope.largest_output, said)
                scope.cost += cost or 0.0

    def check(self) -> None:
        """Raise if what was spent passed a limit."""
        for scope in self.scope.chain():
            for name in COUNTED:
                scope.check(name)


class UsagePolicy(Policy):
    """Lets every attempt of a call count in the usage scopes around it: reserved before, settled after."""

    __slots__ = ("_call", "_received", "_spending")
    watches_events = True

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._received = cast("FoldedAttempt", call.received)
        self._spending: Spending | None = None

    async def reserve(self, request: ChatRequest) -> None:
        """Take this attempt's share of every limit, waiting for other calls where they leave no room."""
        scope, model = SCOPE.get(), self._call.model
        if scope is None:
            return
        counted = model.count_tokens(request.messages, request.tools)
        most = request.options.get("max_tokens") or getattr(model, "max_tokens", None)
        spending = Spending(
            scope,
            counted.n,
            most if isinstance(most, int) else None,
            self._call.profile.get("prices"),
            self._call.model_label,
        )
        await spending.reserve(self._call.run.io)
        self._spending = spending

    def held(self) -> AbstractContextManager[None]:
        """Mark that the code inside runs for this attempt."""
        return nullcontext() if self._spending is None else self._spending.held()

    async def on_events(self, batch: Batch) -> Batch:
        """Settle what the message cost at its finish; raise if a limit is passed."""
        if self._spending is not None and ends_message(batch):
            self._spending.settle(self._received.usage)
            try:
                self._spending.check()
            except BudgetExceeded as error:
                error.partial = self._received.message
                raise
        return batch

    def settle(self, usage: Mapping[str, Any] | None) -> None:
        """Settle an attempt that broke off; one that finished is settled already."""
        if self._spending is not None:
            self._spending.settle(usage)
            self._spending = None


def _shown(number: float) -> str:
    return f"{number:g}" if number % 1 else str(int(number))
