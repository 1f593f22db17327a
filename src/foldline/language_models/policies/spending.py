"""`Spending`: the share of one request in the usage scopes around it, reserved before it is sent, settled after."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, cast

from foldline._io import IO, Channel
from foldline.exceptions import UsageError
from foldline.language_models.policies.usage_scope import (
    COUNTED,
    Reservation,
    UsageScope,
    scope_lock,
    time_left,
)
from foldline.messages.usage import UsageMetadata, add_request_usage
from foldline.prices.cost import cost_of
from foldline.prices.types import Prices

__all__ = ["Expectation", "Spending"]

FIRST_LOOK: Final = 0.001
LONGEST_LOOK: Final = 0.05
"""Seconds between two looks whether a call under way has made room."""
BEHIND: Final = 2.0
"""Seconds between two looks of one who is not the first to wait."""
MILLION: Final = 1_000_000
_holding: ContextVar[tuple[Reservation, ...]] = ContextVar("foldline_reservations", default=())
"""The calls that this code runs inside of: a model that asks another model does not wait for itself."""


class Expectation(NamedTuple):
    """What is known of a request before it is sent."""

    input_tokens: int
    max_tokens: int | None
    """What the request says its answer may have at most."""
    ceiling: int | None
    """What the model can say at most."""
    prices: Prices | None
    service: str | None
    where: str


class Spending:
    """The share of one request in the scopes around it: reserved, then settled once."""

    __slots__ = ("_costs", "_expected", "_reservation", "_scopes", "is_limited", "scope")

    def __init__(self, scope: UsageScope, expected: Expectation) -> None:
        self.scope: UsageScope = scope
        self._scopes: tuple[UsageScope, ...] = tuple(scope.chain())
        self.is_limited: bool = scope.is_limited
        """Whether a request may have to wait, or to be refused; else it is only counted."""
        self._expected = expected
        self._reservation: Reservation | None = None
        self._costs: dict[tuple[int, int], float | None] = {}
        """Input and output tokens -> their cost, as far as it was asked for."""

    # -- before

    async def reserve(self, io: IO) -> None:
        """Take a share of every scope's limits, waiting for calls under way where they leave no room."""
        if not self.is_limited:
            self._reservation = Reservation(scopes=self._scopes)
            with scope_lock:
                for scope in self._scopes:
                    scope.model_calls += 1
            return
        line, channel = self.scope.line, None
        pause = FIRST_LOOK
        try:
            while not self._try(channel):
                if _holding.get():  # those before it may wait for the call that this one is part of
                    await io.sleep(pause)
                else:
                    if channel is None:
                        channel = io.channel()
                        with scope_lock:
                            line.join(channel)
                    is_first = line.is_first(channel)
                    await channel.get_within(_within_deadline(pause if is_first else BEHIND))
                pause = min(pause * 2, LONGEST_LOOK)
        finally:
            if channel is not None:
                line.leave(channel)

    def _try(self, channel: Channel | None) -> bool:
        held = _holding.get()
        with scope_lock:
            scopes = self._scopes
            if not held and not self.scope.line.is_free_for(channel):
                for scope in scopes:
                    scope.check_time()
                return False
            for scope in scopes:
                self._check(scope)
            reservation = self._share(scopes)
            if not all(self._fits(scope, reservation, held) for scope in scopes):
                return False
            self._reservation = reservation
            for scope in scopes:
                scope.model_calls += 1
                scope.under_way.add(reservation)
                scope.reserved.add(reservation)
        return True

    def _check(self, scope: UsageScope) -> None:
        """Raise where this call cannot fit a limit, whatever others give back."""
        sent = self._input(scope)
        scope.check_time()
        scope.check("model_calls", 1)
        scope.check("input_tokens", self._expected.input_tokens)
        scope.check("total_tokens", self._expected.input_tokens + 1)
        scope.check("output_tokens", 1)
        if scope.limits.cost is not None:
            self._check_prices()
            scope.check("cost", self._cost(sent, self._least_output(scope)))

    def _check_prices(self) -> None:
        if self._known_cost(1, 1) is None:
            raise UsageError(
                f"Limits(cost=…) needs the prices of {self._expected.where}: pass "
                'profile={"prices": {"input": …, "output": …}} or call foldline.prices.register_prices '
                "(per million tokens)"
            )

    def _least_output(self, scope: UsageScope) -> int:
        """Return the tokens of an answer that must still fit a limit of cost."""
        most = self._expected.max_tokens
        return scope.largest_output if most is None else most

    def _fits(self, scope: UsageScope, share: Reservation, held: tuple[Reservation, ...]) -> bool:
        others = Reservation()
        others.add(scope.reserved)
        count = len(scope.under_way)
        for one in held:
            if one in scope.under_way:
                others.add(one, -1)
                count -= 1
        if not count:
            return True
        for name in COUNTED:
            limit = scope.limits.of(name)
            if limit is None:
                continue
            if scope.used(name) + others.of(name) + share.of(name) > limit:
                return False
        return True

    def _share(self, scopes: tuple[UsageScope, ...]) -> Reservation:
        sent, output = max(self._input(scope) for scope in scopes), self._output(scopes)
        return Reservation(sent, output, self._cost(sent, output), scopes)

    def _input(self, scope: UsageScope) -> int:
        """Return what is sent, and what it was counted too low by before where money is limited."""
        more = scope.largest_excess if scope.limits.cost is not None else 0
        return self._expected.input_tokens + more

    def _output(self, scopes: tuple[UsageScope, ...]) -> int:
        """What this call may say: its own bound, else twice the longest answer of the scopes, else all that is left.

        Where money is limited, the first call of a scope reserves all that is left: nothing is known of its kind yet.
        """
        expected = self._expected
        if not any(scope.limits.cost is not None and not scope.settled_calls for scope in scopes):
            if expected.max_tokens is not None:
                return expected.max_tokens
            if longest := max(scope.largest_output for scope in scopes):
                return min(2 * longest, expected.ceiling or 2 * longest)
        left = [room for scope in scopes for room in self._rooms(scope)]
        return int(max(0, min(left))) if left else 0

    def _rooms(self, scope: UsageScope) -> Iterator[float]:
        """Yield the tokens of an answer that each limit of a scope leaves room for."""
        for name in ("output_tokens", "total_tokens"):
            limit = scope.limits.of(name)
            if limit is not None:
                yield limit - scope.used(name)
        if scope.limits.cost is not None and (price := self._cost(0, MILLION)) > 0:
            yield (scope.limits.cost - scope.used("cost")) / price * MILLION + 1

    def _cost(self, sent: int, answered: int) -> float:
        return self._known_cost(sent, answered) or 0.0

    def _known_cost(self, sent: int, answered: int) -> float | None:
        key = (sent, answered)
        if key not in self._costs:
            usage, expected = {"input_tokens": sent, "output_tokens": answered}, self._expected
            self._costs[key] = cost_of(usage, expected.prices, service=expected.service)
        return self._costs[key]

    # -- while it runs

    @contextmanager
    def in_use(self) -> Generator[None, None, None]:
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

    # -- after

    def settle(
        self, usage: Mapping[str, Any] | None, cost: float | None, *, was_answered: bool
    ) -> None:
        """Return the reservation back and count what was spent; once."""
        reservation, self._reservation = self._reservation, None
        if reservation is None:
            return
        with scope_lock:
            for scope in reservation.scopes:
                if reservation in scope.under_way:
                    self._give_back(scope, reservation)
                self._count(scope, usage)
                if cost is not None:
                    scope.known_cost += cost
                elif was_answered:
                    scope.unpriced_calls += 1
                    if scope.limits.cost is not None:
                        scope.assumed_cost += self._cost(
                            reservation.input_tokens, self._assumed_tokens(usage)
                        )
        if self.is_limited:
            for scope in reservation.scopes:
                scope.line.leave(None)

    def _give_back(self, scope: UsageScope, reservation: Reservation) -> None:
        scope.under_way.discard(reservation)
        scope.reserved.add(reservation, -1)
        if not scope.under_way:
            scope.reserved = Reservation()  # sums of thousands of amounts drift

    def _assumed_tokens(self, usage: Mapping[str, Any] | None) -> int:
        """Return the tokens that an answer of unknown cost is taken to have had."""
        said = (usage or {}).get("output_tokens")
        return said if isinstance(said, int) else self._expected.max_tokens or 0

    def _count(self, scope: UsageScope, usage: Mapping[str, Any] | None) -> None:
        if not usage:
            return
        scope.settled_calls += 1
        scope.usage = add_request_usage(scope.usage, cast("UsageMetadata", usage))
        scope.largest_output = max(scope.largest_output, usage.get("output_tokens") or 0)
        excess = (usage.get("input_tokens") or 0) - self._expected.input_tokens
        scope.largest_excess = max(scope.largest_excess, excess)

    def cancel(self) -> None:
        """Return the reservation back: no request was made."""
        reservation = self._reservation
        self.settle(None, None, was_answered=False)
        if reservation is not None:
            with scope_lock:
                for scope in reservation.scopes:
                    scope.model_calls -= 1

    def check(self) -> None:
        """Raise if what was spent passed a limit."""
        for scope in self._scopes if self.is_limited else ():
            for name in COUNTED:
                scope.check(name)


def _within_deadline(pause: float) -> float:
    left = time_left()
    return pause if left is None else max(0.0, min(pause, left))
