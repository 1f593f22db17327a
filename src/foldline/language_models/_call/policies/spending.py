"""`Spending`: the share of one request in the usage scopes around it, reserved before it is sent, settled after."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, cast

from foldline._io import IO, Channel
from foldline.exceptions import (
    BudgetExceeded,
    FoldlineError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    UsageError,
)
from foldline.language_models._call.policies.usage_scope import (
    LIMITED_COUNTERS,
    Due,
    Ledger,
    Share,
    UsageScope,
    scope_lock,
    time_left,
)
from foldline.messages.usage import UsageMetadata, add_request_usage
from foldline.prices.cost import cost_of
from foldline.prices.types import Prices

__all__ = ["Expectation", "Spending", "was_sent"]

FIRST_POLL_SECONDS: Final = 0.001
MAX_POLL_SECONDS: Final = 0.05
"""Seconds between two checks whether a running call has released its share."""
QUEUED_POLL_SECONDS: Final = 2.0
"""Seconds between two checks of a caller that is not the first in line."""
logger = logging.getLogger("foldline.language_models")
MILLION: Final = 1_000_000
LEDGER_POLL_SECONDS: Final = 0.5
"""The longest pause between two tries to hold a share in a ledger that other processes use too."""
CHARACTERS_PER_TOKEN: Final = 4
MAX_LIKELY_OUTPUT: Final = 4096
"""The tokens that a ledger holds at most for the first answer of unknown length."""
_holding: ContextVar[tuple[Share, ...]] = ContextVar("foldline_reservations", default=())
"""The calls that this code runs in: a model that calls another model does not wait for itself."""


class Expectation(NamedTuple):
    """What is known of a request before it is sent."""

    input_tokens: int
    max_tokens: int | None
    """The limit of the answer in the request."""
    ceiling: int | None
    """The limit of the model."""
    prices: Prices | None
    service: str | None
    model_label: str


class Spending:
    """The share of one request in the scopes around it: reserved, then settled once."""

    __slots__ = (
        "_costs",
        "_expected",
        "_ledger_scopes",
        "_scopes",
        "_share",
        "is_limited",
        "scope",
    )

    def __init__(self, scope: UsageScope, expected: Expectation) -> None:
        self.scope: UsageScope = scope
        self._scopes: tuple[UsageScope, ...] = tuple(scope.chain())
        self._ledger_scopes: list[UsageScope] = [
            each for each in self._scopes if each.ledger is not None
        ]
        self.is_limited: bool = scope.is_limited
        """Whether a request may have to wait or may be rejected; else it is only counted."""
        self._expected = expected
        self._share: Share | None = None
        self._costs: dict[tuple[int, int], float | None] = {}
        """Input and output tokens -> their cost, as far as it was computed."""

    @property
    def has_ledger(self) -> bool:
        """Whether a scope around the request has a ledger."""
        return bool(self._ledger_scopes)

    # -- before

    async def reserve(self, io: IO) -> None:
        """Reserve a share of every scope's limits; wait for running calls if they leave no room."""
        if not self.is_limited:
            self._share = Share(scopes=self._scopes)
            with scope_lock:
                for scope in self._scopes:
                    scope.model_calls += 1
            return
        line, channel = self.scope.line, None
        pause = FIRST_POLL_SECONDS
        try:
            while not self._try_reserve(channel):
                if (
                    _holding.get()
                ):  # callers before it may wait for the call that this one is part of
                    await io.sleep(pause)
                else:
                    if channel is None:
                        channel = io.channel()
                        with scope_lock:
                            line.join(channel)
                    is_first = line.is_first(channel)
                    await channel.get_within(
                        _within_deadline(pause if is_first else QUEUED_POLL_SECONDS)
                    )
                pause = min(pause * 2, MAX_POLL_SECONDS)
        finally:
            if channel is not None:
                line.leave(channel)
        if self._ledger_scopes:
            await self._hold(io)

    async def reserve_in_ledgers(self, io: IO) -> None:
        """Hold the estimate in the ledgers alone: embeddings count for no limit and no sum of a scope."""
        self._share = Share(self._expected.input_tokens)
        await self._hold(io)

    async def _hold(self, io: IO) -> None:
        """Hold the estimate in the ledgers; where one refuses, everything is released."""
        share = cast("Share", self._share)
        try:
            for scope in self._ledger_scopes:
                await self._hold_in(scope, share, io)
        except BaseException:
            self.cancel()
            await self.flush(io)
            raise

    async def _hold_in(self, scope: UsageScope, share: Share, io: IO) -> None:
        """Hold the estimate in the ledger of one scope; ask again as long as it says that others may leave room."""
        output_tokens = self._likely_output()
        tokens = share.input_tokens + output_tokens
        cost = self._known_cost(share.input_tokens, output_tokens)
        start, pause = time.monotonic(), MAX_POLL_SECONDS
        while True:
            try:
                await io.call(self._take_hold, scope, share, tokens, cost)
            except BudgetExceeded as error:
                remaining = error.patience - (time.monotonic() - start)
                if remaining <= 0:
                    raise
                await io.sleep(_within_deadline(min(pause, remaining)))
                for each in self._scopes:
                    each.check_time()
                pause = min(pause * 2, LEDGER_POLL_SECONDS)
            else:
                return

    def _take_hold(self, scope: UsageScope, share: Share, tokens: int, cost: float | None) -> None:
        """Hold an estimate; a hold that comes after its caller was cancelled is given back."""
        ledger = cast("Ledger", scope.ledger)
        hold = ledger.reserve(tokens, cost)
        with scope_lock:
            is_wanted = self._share is share
            if is_wanted:
                share.holds.append((scope, hold))
        if not is_wanted:
            ledger.settle(hold, 0, 0.0)

    def _likely_output(self) -> int:
        """Return the tokens that a ledger holds for an answer; all that is left would stop every other call."""
        expected = self._expected
        if expected.max_tokens is not None:
            return expected.max_tokens
        if longest := max(scope.largest_output for scope in self._scopes):
            return min(2 * longest, expected.ceiling or 2 * longest)
        return min(expected.ceiling or MAX_LIKELY_OUTPUT, MAX_LIKELY_OUTPUT)

    def _try_reserve(self, channel: Channel | None) -> bool:
        enclosing = _holding.get()
        with scope_lock:
            scopes = self._scopes
            if not enclosing and not self.scope.line.is_free_for(channel):
                for scope in scopes:
                    scope.check_time()
                return False
            for scope in scopes:
                self._check(scope)
            share = self._share_for(scopes)
            if not all(self._fits(scope, share, enclosing) for scope in scopes):
                return False
            self._share = share
            for scope in scopes:
                scope.model_calls += 1
                scope.under_way.add(share)
                scope.reserved.add(share)
        return True

    def _check(self, scope: UsageScope) -> None:
        """Raise if this call cannot fit a limit, however much other calls release."""
        input_tokens = self._input(scope)
        scope.check_time()
        scope.check("model_calls", 1)
        scope.check("input_tokens", self._expected.input_tokens)
        scope.check("total_tokens", self._expected.input_tokens + 1)
        scope.check("output_tokens", 1)
        if scope.limits.cost is not None:
            self._check_prices()
            scope.check("cost", self._cost(input_tokens, self._least_output(scope)))

    def _check_prices(self) -> None:
        if self._known_cost(1, 1) is None:
            raise UsageError(
                f"Limits(cost=…) needs the prices of {self._expected.model_label}: pass "
                'profile={"prices": {"input": …, "output": …}} or call foldline.prices.register_prices '
                "(per million tokens)"
            )

    def _least_output(self, scope: UsageScope) -> int:
        """Return the tokens of an answer that must still fit a limit of cost."""
        max_tokens = self._expected.max_tokens
        return scope.largest_output if max_tokens is None else max_tokens

    def _fits(self, scope: UsageScope, share: Share, enclosing: tuple[Share, ...]) -> bool:
        other_calls = Share()
        other_calls.add(scope.reserved)
        count = len(scope.under_way)
        for enclosing_call in enclosing:
            if enclosing_call in scope.under_way:
                other_calls.add(enclosing_call, -1)
                count -= 1
        if not count:
            return True
        for name in LIMITED_COUNTERS:
            limit = scope.limits.of(name)
            if limit is None:
                continue
            if scope.used(name) + other_calls.of(name) + share.of(name) > limit:
                return False
        return True

    def _share_for(self, scopes: tuple[UsageScope, ...]) -> Share:
        input_tokens, output_tokens = (
            max(self._input(scope) for scope in scopes),
            self._output(scopes),
        )
        return Share(input_tokens, output_tokens, self._cost(input_tokens, output_tokens), scopes)

    def _input(self, scope: UsageScope) -> int:
        """Return the input tokens, plus the largest earlier miscount if money is limited."""
        correction = scope.largest_excess if scope.limits.cost is not None else 0
        return self._expected.input_tokens + correction

    def _output(self, scopes: tuple[UsageScope, ...]) -> int:
        """Return the tokens to reserve: the request's limit, else twice the longest answer, else all that is left.

        If money is limited, the first call of a scope reserves all that is left: nothing is known of its kind yet.
        """
        expected = self._expected
        if not any(scope.limits.cost is not None and not scope.settled_calls for scope in scopes):
            if expected.max_tokens is not None:
                return expected.max_tokens
            if longest := max(scope.largest_output for scope in scopes):
                return min(2 * longest, expected.ceiling or 2 * longest)
        rooms = [room for scope in scopes for room in self._rooms(scope)]
        return int(max(0, min(rooms))) if rooms else 0

    def _rooms(self, scope: UsageScope) -> Iterator[float]:
        """Yield the tokens of an answer that each limit of a scope leaves."""
        for name in ("output_tokens", "total_tokens"):
            limit = scope.limits.of(name)
            if limit is not None:
                yield limit - scope.used(name)
        if scope.limits.cost is not None and (price := self._cost(0, MILLION)) > 0:
            yield (scope.limits.cost - scope.used("cost")) / price * MILLION + 1

    def _cost(self, input_tokens: int, output_tokens: int) -> float:
        return self._known_cost(input_tokens, output_tokens) or 0.0

    def _known_cost(self, input_tokens: int, output_tokens: int) -> float | None:
        key = (input_tokens, output_tokens)
        if key not in self._costs:
            usage, expected = (
                {"input_tokens": input_tokens, "output_tokens": output_tokens},
                self._expected,
            )
            self._costs[key] = cost_of(usage, expected.prices, service=expected.service)
        return self._costs[key]

    # -- while it runs

    @contextmanager
    def in_use(self) -> Generator[None, None, None]:
        """Mark that the code inside runs for this call. Never hold it across a `yield` to the caller."""
        share = self._share
        if share is None:
            yield
            return
        token = _holding.set((*_holding.get(), share))
        try:
            yield
        finally:
            _holding.reset(token)

    # -- after

    def settle(
        self,
        usage: Mapping[str, Any] | None,
        cost: float | None,
        *,
        was_answered: bool,
        received: Mapping[str, Any] | None = None,
    ) -> None:
        """Release the share and count the usage; once.

        Ledgers are told what was `received`, an estimate, of a request whose usage is not known or not complete.
        """
        with scope_lock:
            share, self._share = self._share, None
        if share is None:
            return
        with scope_lock:
            for scope in share.scopes:
                if share in scope.under_way:
                    self._release(scope, share)
                self._count(scope, usage)
                if cost is not None:
                    scope.known_cost += cost
                elif was_answered:
                    scope.unpriced_calls += 1
                    if scope.limits.cost is not None:
                        scope.assumed_cost += self._cost(
                            share.input_tokens, self._assumed_tokens(usage)
                        )
            if share.holds:
                self._note(share, usage, cost, received)
        if self.is_limited:
            self._leave(share)

    def _leave(self, share: Share) -> None:
        """Wake who waits for the share; tell the ledgers of scopes that have ended, for which nobody will flush."""
        for scope in share.scopes:
            scope.line.leave(None)
        for scope, _ in share.holds:
            if scope.is_over:
                scope.settle_dues()

    def _note(
        self,
        share: Share,
        usage: Mapping[str, Any] | None,
        cost: float | None,
        received: Mapping[str, Any] | None,
    ) -> None:
        """Note for the ledgers what the request took; `flush` tells them. Nothing was charged without an answer."""
        if received is not None:
            usage = received
            cost = cost_of(received, self._expected.prices, service=self._expected.service)
        tokens = (usage or {}).get("total_tokens")
        if not usage:
            tokens, cost = 0, 0.0
        for scope, hold in share.holds:
            scope.dues.append(Due(cast("Ledger", scope.ledger), hold, tokens, cost))

    async def flush(self, io: IO) -> None:
        """Settle in the ledgers what is over, also of calls whose reader left.

        An answer is not lost because a ledger is out of reach: it is told with the next call, or at its end.
        """
        for scope in self._ledger_scopes:
            if scope.dues:
                try:
                    await io.call(scope.settle_dues)
                except Exception as error:  # noqa: BLE001  of a program's ledger; raised by the end of its scope
                    logger.warning("a ledger could not be settled, and will be later: %r", error)

    def _release(self, scope: UsageScope, share: Share) -> None:
        scope.under_way.discard(share)
        scope.reserved.add(share, -1)
        if not scope.under_way:
            scope.reserved = Share()  # rounding errors of thousands of sums add up

    def _assumed_tokens(self, usage: Mapping[str, Any] | None) -> int:
        """Return the tokens that an answer of unknown cost is assumed to have."""
        output_tokens = (usage or {}).get("output_tokens")
        return output_tokens if isinstance(output_tokens, int) else self._expected.max_tokens or 0

    def _count(self, scope: UsageScope, usage: Mapping[str, Any] | None) -> None:
        if not usage:
            return
        scope.settled_calls += 1
        scope.usage = add_request_usage(scope.usage, cast("UsageMetadata", usage))
        scope.largest_output = max(scope.largest_output, usage.get("output_tokens") or 0)
        excess = (usage.get("input_tokens") or 0) - self._expected.input_tokens
        scope.largest_excess = max(scope.largest_excess, excess)

    def usage_received(self, usage: Mapping[str, Any] | None, characters: int) -> Mapping[str, Any]:
        """Return what a request took at least whose usage is not known, or not complete: it broke off."""
        known = usage or {}
        input_tokens = known.get("input_tokens") or self._expected.input_tokens
        sent_tokens = -(-characters // CHARACTERS_PER_TOKEN)
        output_tokens = max(known.get("output_tokens") or 0, sent_tokens)
        return {
            **known,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        }

    def cancel(self) -> None:
        """Release the share: no request was sent."""
        share = self._share
        self.settle(None, None, was_answered=False)
        if share is not None:
            with scope_lock:
                for scope in share.scopes:
                    scope.model_calls -= 1

    def check(self) -> None:
        """Raise if the usage exceeded a limit."""
        for scope in self._scopes if self.is_limited else ():
            for name in LIMITED_COUNTERS:
                scope.check(name)


def _within_deadline(pause: float) -> float:
    remaining_seconds = time_left()
    return pause if remaining_seconds is None else max(0.0, min(pause, remaining_seconds))


def was_sent(error: BaseException) -> bool:
    """Whether a provider may have got a request for embeddings that failed, and charges it."""
    if isinstance(error, ModelConnectionError):
        return False
    if isinstance(error, ModelTimeoutError):
        return error.phase not in ("connect", "pool")
    return isinstance(error, ModelError) or not isinstance(error, FoldlineError)
