"""Rate limits of a provider's requests: what its answers say of them, and the permit of a request for embeddings.

The calls of chat models and text models take their permits by `UsagePolicy`; embeddings are no call of a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from foldline._io import IO
from foldline.language_models._call.deadline import wait_for_rate_limit
from foldline.language_models._call.policies.permits import take_permit, tokens_used
from foldline.language_models._call.policies.spending import Expectation
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
    """One request's permit of a rate limiter: taken on entry, settled on exit by the usage of the answer."""

    __slots__ = ("_expected", "_io", "_limiter", "_permit", "usage")

    def __init__(self, expected: Expectation, limiter: BaseRateLimiter, io: IO) -> None:
        self._expected = expected
        self._limiter = limiter
        self._io = io
        self._permit: Permit | None = None
        self.usage: Mapping[str, Any] | None = None
        """The usage of the answer, under the names of `UsageMetadata`."""

    async def __aenter__(self) -> Self:
        if self._limiter.takes_reservations:
            limiter = cast("QuotaLimiter", self._limiter)
            self._permit = await take_permit(limiter, self._expected, self._io)
        else:
            await wait_for_rate_limit(self._limiter, self._io)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        permit, self._permit = self._permit, None
        if permit is None:
            return
        tokens = tokens_used(self.usage, cast("QuotaLimiter", self._limiter))
        if tokens is None and error is not None:
            tokens = float(self._expected.input_tokens)
        if error is None or isinstance(error, Exception):
            await permit.settle_now(tokens, self._io)
        else:  # the caller has gone: the store is updated with the next request
            permit.settle(tokens)
