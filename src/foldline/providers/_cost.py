"""The cost of a request as its vendor reports it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

__all__ = ["read_cost"]

TICKS_PER_DOLLAR: Final = 10_000_000_000
"""xAI reports costs in ticks."""
COST_FIELDS: Final = ("cost", "estimated_cost")
"""Fields that hold dollars: `cost` of OpenRouter and Perplexity, `estimated_cost` of DeepInfra."""


def read_cost(usage: Mapping[str, Any]) -> float | None:
    """Return the cost in dollars that a usage reports, or None if it reports none.

    With the caller's own vendor key (BYOK), OpenRouter reports its fee and the vendor's charge separately.
    """
    for name in COST_FIELDS:
        value = usage.get(name)
        cost = _amount(value.get("total_cost") if isinstance(value, Mapping) else value)
        if cost is None:
            continue
        details = usage.get("cost_details")
        if usage.get("is_byok") is True and isinstance(details, Mapping):
            cost += _amount(details.get("upstream_inference_cost")) or 0.0
        return cost
    ticks = _amount(usage.get("cost_in_usd_ticks"))
    return None if ticks is None else ticks / TICKS_PER_DOLLAR


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isfinite(value) and value >= 0 else None
