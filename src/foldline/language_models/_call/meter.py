"""`RequestMeter`: what one request of a text model or of embeddings reserves and spends.

The attempts of a chat model do the same by their policies; here there are no events, only a request and its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from foldline._io import IO
from foldline.language_models._call.deadline import wait_for_rate_limit
from foldline.language_models._call.policies.permits import take_permit, tokens_used
from foldline.language_models._call.policies.spending import Expectation, Spending
from foldline.language_models._call.policies.usage_scope import UsageScope
from foldline.prices.cost import cost_of
from foldline.rate_limiters import BaseRateLimiter

if TYPE_CHECKING:  # loaded by those who make one
    from foldline.rate_limiters.limiter import Permit, QuotaLimiter

__all__ = ["RequestMeter"]


class RequestMeter:
    """One request's share of a usage scope and of a rate limiter: reserved on entry, settled on exit."""

    __slots__ = ("_expected", "_io", "_limiter", "_permit", "_spending", "is_begun", "usage")

    def __init__(
        self,
        expected: Expectation,
        io: IO,
        limiter: BaseRateLimiter | None,
        scope: UsageScope | None,
    ) -> None:
        self._expected = expected
        self._io = io
        self._limiter = limiter
        self._spending = None if scope is None else Spending(scope, expected)
        self._permit: Permit | None = None
        self.usage: Mapping[str, Any] | None = None
        """The usage of the answer, under the names of `UsageMetadata`."""
        self.is_begun: bool = False
        """Whether part of the answer came: a request that breaks off then was charged."""

    async def __aenter__(self) -> Self:
        if self._limiter is not None and self._quota_limiter is None:
            await wait_for_rate_limit(self._limiter, self._io)
        if self._spending is not None:
            await self._spending.reserve(self._io)
        if (limiter := self._quota_limiter) is not None:
            try:
                self._permit = await take_permit(limiter, self._expected, self._io)
            except BaseException:
                if self._spending is not None:
                    self._spending.cancel()
                    await self._spending.flush(self._io)
                raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        was_answered = error is None or self.is_begun
        await self._settle_permit(error, was_answered=was_answered)
        if self._spending is None:
            return
        expected = self._expected
        cost = cost_of(self.usage, expected.prices, service=expected.service)
        self._spending.settle(self.usage, cost, was_answered=was_answered)
        if error is None or isinstance(error, Exception):
            await self._spending.flush(self._io)
        if error is None:
            self._spending.check()

    async def _settle_permit(self, error: BaseException | None, *, was_answered: bool) -> None:
        permit, self._permit = self._permit, None
        if permit is None:
            return
        tokens = tokens_used(self.usage, self._quota_limiter)
        if tokens is None and not was_answered:
            tokens = float(self._expected.input_tokens)
        if error is None or isinstance(error, Exception):
            await permit.settle_now(tokens, self._io)
        else:  # the caller has gone: the store is updated with the next request
            permit.settle(tokens)

    @property
    def _quota_limiter(self) -> QuotaLimiter | None:
        limiter = self._limiter
        if limiter is None or not limiter.takes_reservations:
            return None
        return cast("QuotaLimiter", limiter)

    def observe(
        self, headers: Mapping[str, str], *, status: int, retry_after: float | None
    ) -> None:
        """Let the limiter learn from the limits in a provider's answer."""
        if self._limiter is not None:
            self._limiter.observe(headers, status=status, retry_after=retry_after)

    def in_use(self) -> AbstractContextManager[None]:
        """Return a context that marks that the code inside runs for this request."""
        return nullcontext() if self._spending is None else self._spending.in_use()
