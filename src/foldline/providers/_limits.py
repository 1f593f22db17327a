"""Limits of a provider's requests: what its answers say of them, and what a request for embeddings takes of them.

The calls of chat models and text models reserve by `UsagePolicy`; embeddings are no call of a model.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from foldline._io import IO
from foldline.language_models._call.deadline import wait_for_rate_limit
from foldline.language_models._call.policies.permits import take_permit
from foldline.language_models._call.policies.spending import Expectation, Spending, was_sent
from foldline.language_models._call.policies.usage_scope import SCOPE
from foldline.prices.cost import cost_of
from foldline.providers._wire import retry_after
from foldline.rate_limiters import BaseRateLimiter
from foldline.transports import Response

if TYPE_CHECKING:  # loaded by those who make one
    from foldline.rate_limiters.limiter import Permit, QuotaLimiter

__all__ = ["RequestPermit", "observe_limits"]


def observe_limits(limiter: BaseRateLimiter | None, response: Response) -> None:
    """Let the limiter learn from the limits in a provider's answer."""
    if limiter is not None:
        wait = retry_after(response.headers)
        limiter.observe(response.headers, status=response.status, retry_after=wait)


class RequestPermit:
    """What limits one request for embeddings: holds in the ledgers around it, and its permit of a rate limiter.

    Both are taken on entry and settled on exit: by the tokens of the answer, else at the counted input. For a ledger, a
    request that was not sent costs nothing.
    """

    __slots__ = ("_expected", "_io", "_limiter", "_permit", "_spending", "is_sent", "tokens")

    def __init__(self, expected: Expectation, limiter: BaseRateLimiter | None, io: IO) -> None:
        self._expected = expected
        self._limiter = limiter
        self._io = io
        self._permit: Permit | None = None
        self._spending: Spending | None = None
        self.is_sent = False
        """Whether the provider may have got the request."""
        self.tokens: int | None = None
        """The tokens of the answer, if it tells them."""

    async def __aenter__(self) -> Self:
        if (scope := SCOPE.get()) is not None:
            spending = Spending(scope, self._expected)
            if spending.has_ledger:
                await spending.reserve_in_ledgers(self._io)
                self._spending = spending
        try:
            await self._enter_limiter()
        except BaseException:
            if self._spending is not None:
                self._spending.cancel()
                await self._spending.flush(self._io)
            raise
        return self

    async def _enter_limiter(self) -> None:
        if self._limiter is None:
            return
        if self._limiter.takes_reservations:
            limiter = cast("QuotaLimiter", self._limiter)
            self._permit = await take_permit(limiter, self._expected, self._io)
        else:
            await wait_for_rate_limit(self._limiter, self._io)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        spending, permit = self._spending, self._permit
        self._spending = self._permit = None
        tokens = None if self.tokens is None else float(self.tokens)
        if tokens is None and error is not None:
            tokens = float(self._expected.input_tokens)
        if spending is not None:
            self._settle(spending, error)
        if permit is not None:
            permit.settle(tokens)
        if error is not None and not isinstance(error, Exception):
            return  # the caller has gone: ledger and store are updated with the next request, or at the end
        if permit is not None:
            await cast("QuotaLimiter", self._limiter).flush(self._io)
        if spending is not None:
            await spending.flush(self._io)

    def _settle(self, spending: Spending, error: BaseException | None) -> None:
        if not self.is_sent or (error is not None and not was_sent(error)):
            spending.settle(None, None, was_answered=False)
            return
        count = self._expected.input_tokens if self.tokens is None else self.tokens
        usage = {"input_tokens": count, "output_tokens": 0, "total_tokens": count}
        spending.settle(usage, cost_of(usage, self._expected.prices), was_answered=True)
