"""What a vendor itself says that a request cost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

__all__ = ["read_cost"]

TICKS: Final = 10_000_000_000
"""Of xAI's ticks, so many are a dollar."""
AMOUNTS: Final = ("cost", "estimated_cost")
"""Where vendors say dollars: OpenRouter and Perplexity; DeepInfra."""


def read_cost(usage: Mapping[str, Any]) -> float | None:
    """Return the dollars that a usage says a request was charged; None where it says nothing of it.

    OpenRouter bills a request by the caller's own key of a vendor twice: its fee, and what the vendor takes.
    """
    for name in AMOUNTS:
        told = usage.get(name)
        cost = _amount(told.get("total_cost") if isinstance(told, Mapping) else told)
        if cost is None:
            continue
        details = usage.get("cost_details")
        if usage.get("is_byok") is True and isinstance(details, Mapping):
            cost += _amount(details.get("upstream_inference_cost")) or 0.0
        return cost
    ticks = _amount(usage.get("cost_in_usd_ticks"))
    return None if ticks is None else ticks / TICKS


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isfinite(value) and value >= 0 else None
