"""`UsagePolicy`: what a call reserves and spends: its share of usage scopes and rate limits, and its cost.

Every attempt reserves before it is sent: first its share of the budgets around it, then its permit of the model's rate
limiter. It settles both when its message is finished, or when it breaks off.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, cast

from foldline._streams.answer import Batch
from foldline.exceptions import (
    BudgetExceeded,
    LimitExceededError,
    MalformedStreamError,
    ModelTimeoutError,
    StreamClosedError,
    StreamInterruptedError,
    StreamTruncatedError,
    StructuredOutputError,
)
from foldline.language_models._call.deadline import wait_for_rate_limit
from foldline.language_models._call.model import setting_of
from foldline.language_models._call.policies.permits import take_permit, tokens_used
from foldline.language_models._call.policies.spending import Expectation, Spending
from foldline.language_models._call.policies.usage_scope import (
    SCOPE,
    Limits,
    UsageScope,
    current_usage,
    time_left,
    usage_scope,
)
from foldline.language_models._call.policy import (
    STOP,
    CallContext,
    Decision,
    Failure,
    FoldedAttempt,
    Policy,
    Reservation,
    ends_message,
)
from foldline.language_models._call.request import ChatRequest
from foldline.prices.cost import cost_of, service_of
from foldline.prices.table import find_prices
from foldline.prices.types import Prices

if TYPE_CHECKING:  # loaded by those who make one: most programs make none
    from foldline.rate_limiters.limiter import Permit, QuotaLimiter

__all__ = [
    "SCOPE",
    "Limits",
    "UsagePolicy",
    "UsageScope",
    "cost_of",
    "current_usage",
    "time_left",
    "usage_scope",
]

ERRORS_AFTER_SENDING: Final = (
    LimitExceededError,
    MalformedStreamError,
    ModelTimeoutError,
    StreamClosedError,
    StreamInterruptedError,
    StreamTruncatedError,
    StructuredOutputError,
)
"""Errors of a request that the provider has got and may charge, though there was no answer; it charges no refusal."""
MEDIA_FIELDS: Final = frozenset({"base64", "data", "id", "type", "url", "mime_type", "signature"})
"""Fields of a block that are no text of the model."""


class UsagePolicy(Policy):
    """Counts every attempt of a call in the usage scopes around it and in its model's rate limits."""

    __slots__ = ("_call", "_cost", "_expected", "_permit", "_received", "_settled", "_spending")
    watches_events = True
    reads_message = True

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Where something is limited, or the prices are known."""
        model = call.model
        is_limited = SCOPE.get() is not None or model.rate_limiter is not None
        return is_limited or "prices" in call.profile

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._received = cast("FoldedAttempt", call.received)
        self._spending: Spending | None = None
        self._settled: Spending | None = None
        """That of the attempt that broke off last."""
        self._permit: Permit | None = None
        self._expected: Expectation | None = None
        self._cost: float | None = 0.0
        """The cost of all attempts; None after the first whose cost is unknown."""

    @property
    def reservation(self) -> Reservation:  # type: ignore[override]  # every attempt reserves here
        """The policy itself."""
        return self

    @property
    def is_settled(self) -> bool:
        """Whether nothing is reserved, or the reservation is settled."""
        return self._expected is None and self._permit is None

    # -- before an attempt

    async def reserve(self, request: ChatRequest) -> None:
        """Reserve this attempt's share of every limit; wait for other calls if they leave no room."""
        scope, plain_limiter = SCOPE.get(), self._call.model.rate_limiter
        limiter = self._limiter
        if plain_limiter is not None and limiter is None:
            # A limiter of LangChain's kind lets requests through, and takes no reservations.
            await wait_for_rate_limit(plain_limiter, self._call.run.io)
        is_counted = limiter is not None and limiter.rules.counts_tokens
        counts = is_counted or (scope is not None and scope.is_limited)
        expected = self._expected = self._expect(request, counts=counts)
        # The budget before the limiter: a call that may not be paid for should not wait for its turn.
        if scope is not None:
            spending = self._spending = Spending(scope, expected)
            await spending.reserve(self._call.run.io)
        if limiter is not None:
            await self._enter(limiter, expected)

    @property
    def _limiter(self) -> QuotaLimiter | None:
        """The limiter of the model, if it accepts reservations."""
        limiter = self._call.model.rate_limiter
        if limiter is None or not limiter.takes_reservations:
            return None
        return cast("QuotaLimiter", limiter)

    async def _enter(self, limiter: QuotaLimiter, expected: Expectation) -> None:
        try:
            self._permit = await take_permit(limiter, expected, self._call.run.io)
        # Also if it was cancelled while it waited: a share that nobody uses would stay reserved.
        except BaseException:
            self.cancel()
            raise

    def _expect(self, request: ChatRequest, *, counts: bool) -> Expectation:
        call, model, options = self._call, self._call.model, request.options
        service = options.get("service_tier") or setting_of(model, "service_tier")
        return Expectation(
            call.author.input_tokens(model, request) if counts else 0,
            call.author.output_limit(model, request),
            call.profile.get("max_output_tokens"),
            self._prices(options.get("model")),
            service_of(service),
            call.model_label if counts else "",
        )

    def _prices(self, other_model: object) -> Prices | None:
        """Return the prices of the model that is called: those of its profile, else of the table."""
        model = self._call.model
        if not other_model or other_model == model._model_name:
            if (profile_prices := self._call.profile.get("prices")) is not None:
                return profile_prices
            other_model = model._model_name
        return find_prices(model._provider, other_model)

    # -- while it runs, and after

    @property
    def has_deadline(self) -> bool:
        """Whether the scopes around the call have a limit: then it holds a share while it runs, within a deadline."""
        scope = SCOPE.get()
        return scope is not None and scope.is_limited

    def in_use(self) -> AbstractContextManager[None]:
        """Return a context that marks that the code inside runs for this attempt."""
        return nullcontext() if self._spending is None else self._spending.in_use()

    async def on_events(self, batch: Batch) -> Batch:
        """Settle the cost of the message at its finish; raise if a limit is exceeded."""
        if self._expected is None or not ends_message(batch):
            return batch
        usage = self._received.usage
        # Taken off first: if something below raises, the end of the attempt must not settle it again.
        permit, self._permit = self._permit, None
        received = None if usage else self._usage_received(usage)
        self._settle(usage, was_answered=True, received=received)
        if permit is not None:
            await permit.settle_now(self._tokens(usage), self._call.run.io)
        if self._cost is not None:
            self._call.response_metadata["cost"] = self._cost
        if self._spending is not None:
            await self._spending.flush(self._call.run.io)
            # Only now: the answer is paid for, so it is counted, and is part of the error.
            try:
                self._spending.check()
            except BudgetExceeded as error:
                error.partial = self._received.message
                raise
        return batch

    def settle(self, usage: Mapping[str, Any] | None) -> None:
        """Settle an attempt that broke off; one that finished is settled already."""
        was_answered, error = self._received.has_begun, self._received.failure
        # No error means that the reader has left: the request was sent, and is charged.
        was_sent = was_answered or error is None or _may_have_arrived(error)
        permit, self._permit = self._permit, None
        if permit is not None:
            input_tokens = self._expected.input_tokens if self._expected is not None else 0
            used_tokens = self._tokens(usage)
            # There was no answer: the input may have been charged, the output was not.
            permit.settle(used_tokens if used_tokens is not None or was_answered else input_tokens)
        received = self._usage_received(usage) if was_sent else None
        self._settle(usage, was_answered=was_answered, received=received)
        self._settled, self._spending = self._spending, None

    def _usage_received(self, usage: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return what the ledgers are told of an attempt without complete usage, by what was received."""
        if self._spending is None or not self._spending.has_ledger:
            return None
        return self._spending.usage_received(usage, characters_of(self._received.blocks))

    async def flush(self) -> None:
        """Update ledgers and the rate limiter at once after an attempt that broke off: a provider may ask to wait."""
        if self._settled is not None:
            await self._settled.flush(self._call.run.io)
        if (limiter := self._limiter) is not None:
            await limiter.flush(self._call.run.io)

    def judge(self, failure: Failure) -> Decision | None:
        """Stop where there is not enough time to wait."""
        remaining_seconds = time_left()
        is_late = remaining_seconds is not None and failure.delay >= remaining_seconds
        return STOP if is_late else None

    def cancel(self) -> None:
        """Release everything: the attempt was never sent."""
        if self._spending is not None:
            self._spending.cancel()
        self._settled, self._spending, self._expected = self._spending, None, None

    def _settle(
        self,
        usage: Mapping[str, Any] | None,
        *,
        was_answered: bool,
        received: Mapping[str, Any] | None,
    ) -> None:
        expected, self._expected = self._expected, None
        if expected is None:
            return
        actual_tier = self._received.response_metadata.get("service_tier")
        # The service tier of the answer takes precedence over the requested one.
        service = service_of(actual_tier) if actual_tier else expected.service
        cost = cost_of(usage, expected.prices, service=service)
        if cost is not None and self._cost is not None:
            self._cost += cost
        # A sum with an unknown part is unknown; an attempt that was not answered counts as free.
        elif was_answered:
            self._cost = None
        if self._spending is not None:
            self._spending.settle(usage, cost, was_answered=was_answered, received=received)

    def _tokens(self, usage: Mapping[str, Any] | None) -> float | None:
        return tokens_used(usage, self._limiter)


def _may_have_arrived(error: Exception) -> bool:
    if isinstance(error, ModelTimeoutError) and error.phase in ("connect", "pool"):
        return False
    return isinstance(error, ERRORS_AFTER_SENDING)


def characters_of(value: object) -> int:
    """Return how many characters of text a model has sent: texts, thoughts, and arguments of calls."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(characters_of(item) for name, item in value.items() if name not in MEDIA_FIELDS)
    if isinstance(value, list | tuple):
        return sum(map(characters_of, value))
    return 0 if value is None else len(str(value))
