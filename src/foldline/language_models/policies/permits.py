"""The permit of one request: waited for before it is sent, settled by what its answer says it used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from foldline._io import IO
from foldline.exceptions import BudgetExceeded, RateLimitError
from foldline.language_models.policies.spending import Expectation
from foldline.language_models.policies.usage_scope import time_left

if TYPE_CHECKING:  # loaded by those who make one: most programs make none
    from foldline.rate_limiters.limiter import Permit, QuotaLimiter

__all__ = ["take_permit", "tokens_used"]


async def take_permit(limiter: QuotaLimiter, expected: Expectation, io: IO) -> Permit:
    """Wait until a limiter lets a request through, no longer than the usage scopes around this code have time."""
    tokens = 0.0
    if limiter.rules.counts_tokens:
        tokens = limiter.estimate(expected.input_tokens, expected.max_tokens)
    left = time_left()
    try:
        return await limiter.enter(io, tokens, left)
    except RateLimitError as error:
        is_bound = limiter.max_wait is None or (left is not None and left <= limiter.max_wait)
        if left is None or not is_bound or error.wait is None:
            raise
        raise BudgetExceeded(
            f"the {round(left, 1):g} s left of this usage_scope are over before the rate limit leaves room: raise "
            "Limits(timeout=…), or ask for less",
            used=left,
            limit=left,
        ) from error


def tokens_used(usage: Mapping[str, Any] | None, limiter: QuotaLimiter | None) -> float | None:
    """Return what an answer says it has used; its limiter learns from it how long answers are."""
    if not usage:
        return None
    sent, said = usage.get("input_tokens"), usage.get("output_tokens")
    if isinstance(said, int) and limiter is not None:
        limiter.observe_answer(said)
    total = usage.get("total_tokens")
    if isinstance(sent, int) and isinstance(said, int):
        return float(sent + said)
    return float(total) if isinstance(total, int) else None
