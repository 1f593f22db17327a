"""The permit of one request of a rate limiter: acquired before it is sent, settled by the usage of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from foldline._io import IO
from foldline.exceptions import BudgetExceeded, RateLimitError
from foldline.language_models._call.policies.spending import Expectation
from foldline.language_models._call.policies.usage_scope import time_left

if TYPE_CHECKING:  # loaded by those who make one: most programs make none
    from foldline.rate_limiters.limiter import Permit, QuotaLimiter

__all__ = ["take_permit", "tokens_used"]


async def take_permit(limiter: QuotaLimiter, expected: Expectation, io: IO) -> Permit:
    """Wait until a limiter allows a request, no longer than the usage scopes around this code have time."""
    tokens = 0.0
    if limiter.rules.counts_tokens:
        tokens = limiter.estimate(expected.input_tokens, expected.max_tokens)
    remaining_seconds = time_left()
    try:
        return await limiter.enter(io, tokens, remaining_seconds)
    except RateLimitError as error:
        is_bound = limiter.max_wait is None or (
            remaining_seconds is not None and remaining_seconds <= limiter.max_wait
        )
        if remaining_seconds is None or not is_bound or error.wait is None:
            raise
        raise BudgetExceeded(
            f"the {round(remaining_seconds, 1):g} s left of this usage_scope are over before the rate limit leaves "
            "room: raise Limits(timeout=…), or ask for less",
            used=remaining_seconds,
            limit=remaining_seconds,
        ) from error


def tokens_used(usage: Mapping[str, Any] | None, limiter: QuotaLimiter | None) -> float | None:
    """Return the tokens of an answer; its limiter learns from it how long answers are."""
    if not usage:
        return None
    input_tokens, output_tokens = usage.get("input_tokens"), usage.get("output_tokens")
    if isinstance(output_tokens, int) and limiter is not None:
        limiter.observe_answer(output_tokens)
    total = usage.get("total_tokens")
    if isinstance(input_tokens, int) and isinstance(output_tokens, int):
        return float(input_tokens + output_tokens)
    return float(total) if isinstance(total, int) else None
