"""The cost of a usage. Every cost in foldline is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from foldline.prices.table import find_prices
from foldline.prices.types import VARIANTS, Prices, Rates

__all__ = [
    "cost_of",
    "message_cost",
]

MILLION: Final = 1_000_000
STANDARD_TIERS: Final = frozenset({"", "auto", "default", "standard", "standard_only", "on_demand"})
"""Providers' names of the service tier that the plain prices are for."""
NO_COUNTS: Final[Mapping[str, Any]] = {}
OUTPUT_PRICES: Final = frozenset({"output", "reasoning", "output_audio", "output_image"})


def cost_of(
    usage: Mapping[str, Any] | None, prices: Prices | None, *, service: str | None = None
) -> float | None:
    """Return the cost of a usage; None, never 0, if a required price is unknown.

    `service` is "batch", "flex" or "priority" if the request was one of these.

    ```python
    from foldline.prices import cost_of

    usage = {"input_tokens": 1000, "output_tokens": 200, "input_token_details": {"cache_read": 800}}
    print(cost_of(usage, {"input": 2.0, "cache_read": 0.2, "output": 10.0}))
    #> 0.00256
    ```
    """
    if not usage:
        return None
    reported_cost = usage.get("total_cost")
    if isinstance(reported_cost, int | float) and not isinstance(reported_cost, bool):
        return float(reported_cost)
    if not prices or ("input_tokens" not in usage and "output_tokens" not in usage):
        return None
    rates = _rates(prices, service or "", _count(usage, "input_tokens"))
    if rates is None:
        return None
    total = 0.0
    for name, count in _parts(usage, rates):
        if not count:
            continue
        price: Any = rates.get(name)
        if price is None:
            return None
        total += count * price
    return total / MILLION


def message_cost(message: object, prices: Prices | None = None) -> float | None:
    """Return the cost of a chat model's answer, from its usage and model name.

    ```python
    from foldline.messages import AIMessage
    from foldline.prices import message_cost

    answer = AIMessage(
        "hi",
        usage_metadata={"input_tokens": 1_000_000, "output_tokens": 0, "total_tokens": 1_000_000},
        response_metadata={"model_provider": "openai", "model_name": "gpt-4o-mini"},
    )
    print(message_cost(answer))
    #> 0.15
    ```
    """
    metadata = getattr(message, "response_metadata", None) or {}
    if prices is None:
        name = metadata.get("model_name") or metadata.get("model")
        prices = find_prices(metadata.get("model_provider"), name)
    usage = getattr(message, "usage_metadata", None)
    return cost_of(usage, prices, service=service_of(metadata.get("service_tier")))


def service_of(service_tier: object) -> str | None:
    """Return the service of a provider's `service_tier`; None for the standard one."""
    if isinstance(service_tier, Mapping):  # Bedrock: {"type": "priority"}
        service_tier = service_tier.get("type")
    text = str(service_tier or "").lower()
    return None if text in STANDARD_TIERS else text


def _rates(prices: Prices, service: str, input_tokens: int) -> Rates | None:
    """Return the prices of one request, which depend on its service and length."""
    rates: Any = prices
    if service:
        variant: Any = prices.get(service)
        if not variant:
            return None
        rates = _complete_rates(prices, variant)
    tiers = rates.get("above")
    if not tiers:
        return rates  # type: ignore[no-any-return]
    exceeded = [int(start) for start in tiers if input_tokens > int(start)]
    if not exceeded:
        return rates  # type: ignore[no-any-return]
    return _complete_rates(rates, tiers[str(max(exceeded))])  # type: ignore[no-any-return]


def _complete_rates(base: Mapping[str, Any], changed: Mapping[str, Any]) -> Any:  # noqa: ANN401  Prices or Rates: two TypedDicts with the same keys
    """Return `changed` prices; those that it lacks are scaled like its input or output price."""
    merged = dict(changed)
    for name, price in base.items():
        if name in merged or name in VARIANTS:
            continue
        if name == "above":
            merged[name] = {start: _scaled(rates, base, changed) for start, rates in price.items()}
        else:
            merged |= _scaled({name: price}, base, changed)
    return merged


def _scaled(
    rates: Mapping[str, float], base: Mapping[str, Any], changed: Mapping[str, Any]
) -> dict[str, float]:
    scaled = {}
    for name, price in rates.items():
        anchor = "output" if name in OUTPUT_PRICES else "input"
        has_both = base.get(anchor) and changed.get(anchor) is not None
        scaled[name] = price * changed[anchor] / base[anchor] if has_both else price
    return scaled


def _parts(usage: Mapping[str, Any], rates: Rates) -> list[tuple[str, int]]:
    """Return the counts of a usage by price; tokens without a separate price count as plain input or output."""
    input_details, output_details = (
        _details(usage, f"{direction}_token_details") for direction in ("input", "output")
    )
    cache_read = _count(input_details, "cache_read")
    one_hour_writes = _count(input_details, "ephemeral_1h_input_tokens")
    cache_writes = max(
        _count(input_details, "cache_creation"),
        one_hour_writes + _count(input_details, "ephemeral_5m_input_tokens"),
    )
    parts = [
        ("cache_read" if "cache_read" in rates else "input", cache_read),
        (
            "cache_creation_1h" if "cache_creation_1h" in rates else _cache_write_rate(rates),
            one_hour_writes,
        ),
        (_cache_write_rate(rates), cache_writes - one_hour_writes),
    ]
    remaining = max(0, _count(usage, "input_tokens") - cache_read - cache_writes)
    for name in ("audio", "image"):
        if f"input_{name}" in rates:
            count = min(remaining, _count(input_details, name))
            parts.append((f"input_{name}", count))
            remaining -= count
    parts.append(("input", remaining))
    remaining = _count(usage, "output_tokens")
    for name, price in (
        ("reasoning", "reasoning"),
        ("audio", "output_audio"),
        ("image", "output_image"),
    ):
        if price in rates:
            count = min(remaining, _count(output_details, name))
            parts.append((price, count))
            remaining -= count
    parts.append(("output", remaining))
    return parts


def _cache_write_rate(rates: Rates) -> str:
    return "cache_creation" if "cache_creation" in rates else "input"


def _details(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = usage.get(name)
    if details is None or type(details) is dict:
        return details or NO_COUNTS
    return details if isinstance(details, Mapping) else NO_COUNTS


def _count(counts: Mapping[str, Any], name: str) -> int:
    count = counts.get(name)
    return count if type(count) is int and count > 0 else 0
