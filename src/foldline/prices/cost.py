"""What a usage costs: the one function that every count of money goes through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from foldline.prices.table import find_prices
from foldline.prices.types import VARIANTS, Prices, Rates

__all__ = ["cost_of", "message_cost", "service_of"]

MILLION: Final = 1_000_000
USUAL_SERVICE: Final = frozenset({"", "auto", "default", "standard", "standard_only", "on_demand"})
"""What providers call the service that the plain prices are for."""
NOTHING: Final[Mapping[str, Any]] = {}
BY_OUTPUT: Final = frozenset({"output", "reasoning", "output_audio", "output_image"})


def cost_of(
    usage: Mapping[str, Any] | None, prices: Prices | None, *, service: str | None = None
) -> float | None:
    """Return what a usage costs; None, never 0, where a price that it needs is not known.

    `service` is "batch", "flex" or "priority" where the request was one of these.

    ```python
    from foldline.prices import cost_of

    usage = {"input_tokens": 1000, "output_tokens": 200, "input_token_details": {"cache_read": 800}}
    print(cost_of(usage, {"input": 2.0, "cache_read": 0.2, "output": 10.0}))
    #> 0.00256
    ```
    """
    if not usage:
        return None
    known = usage.get("total_cost")
    if isinstance(known, int | float) and not isinstance(known, bool):
        return float(known)
    if not prices or ("input_tokens" not in usage and "output_tokens" not in usage):
        return None
    rates = _rates(prices, service or "", _count(usage, "input_tokens"))
    if rates is None:
        return None
    sums = 0.0
    for name, count in _parts(usage, rates):
        if not count:
            continue
        price: Any = rates.get(name)
        if price is None:
            return None
        sums += count * price
    return sums / MILLION


def message_cost(message: object, prices: Prices | None = None) -> float | None:
    """Return what the answer of a chat model cost, by its usage and the model it says it is from.

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


def service_of(word: object) -> str | None:
    """Return the service that a provider's word means; None for the usual one."""
    if isinstance(word, Mapping):  # Bedrock: {"type": "priority"}
        word = word.get("type")
    text = str(word or "").lower()
    return None if text in USUAL_SERVICE else text


def _rates(prices: Prices, service: str, input_tokens: int) -> Rates | None:
    """Return the prices of one request: of its service, and of its length."""
    rates: Any = prices
    if service:
        variant: Any = prices.get(service)
        if not variant:
            return None
        rates = _in_proportion(prices, variant)
    tiers = rates.get("above")
    if not tiers:
        return rates  # type: ignore[no-any-return]
    passed = [int(start) for start in tiers if input_tokens > int(start)]
    if not passed:
        return rates  # type: ignore[no-any-return]
    return _in_proportion(rates, tiers[str(max(passed))])  # type: ignore[no-any-return]


def _in_proportion(base: Mapping[str, Any], changed: Mapping[str, Any]) -> Any:  # noqa: ANN401  prices of a model or of a service: two TypedDicts with the same keys
    """Return prices where what `changed` leaves out has grown or shrunk as its input or output has."""
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
        anchor = "output" if name in BY_OUTPUT else "input"
        is_known = base.get(anchor) and changed.get(anchor) is not None
        scaled[name] = price * changed[anchor] / base[anchor] if is_known else price
    return scaled


def _parts(usage: Mapping[str, Any], rates: Rates) -> list[tuple[str, int]]:
    """Split a usage into counts by price; tokens without a price of their own count as plain input or output."""
    given, made = (_details(usage, f"{way}_token_details") for way in ("input", "output"))
    read = _count(given, "cache_read")
    hour = _count(given, "ephemeral_1h_input_tokens")
    written = max(
        _count(given, "cache_creation"), hour + _count(given, "ephemeral_5m_input_tokens")
    )
    parts = [
        ("cache_read" if "cache_read" in rates else "input", read),
        ("cache_creation_1h" if "cache_creation_1h" in rates else _cache_write_rate(rates), hour),
        (_cache_write_rate(rates), written - hour),
    ]
    left = max(0, _count(usage, "input_tokens") - read - written)
    for name in ("audio", "image"):
        if f"input_{name}" in rates:
            count = min(left, _count(given, name))
            parts.append((f"input_{name}", count))
            left -= count
    parts.append(("input", left))
    left = _count(usage, "output_tokens")
    for name, price in (
        ("reasoning", "reasoning"),
        ("audio", "output_audio"),
        ("image", "output_image"),
    ):
        if price in rates:
            count = min(left, _count(made, name))
            parts.append((price, count))
            left -= count
    parts.append(("output", left))
    return parts


def _cache_write_rate(rates: Rates) -> str:
    return "cache_creation" if "cache_creation" in rates else "input"


def _details(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = usage.get(name)
    if details is None or type(details) is dict:
        return details or NOTHING
    return details if isinstance(details, Mapping) else NOTHING


def _count(counts: Mapping[str, Any], name: str) -> int:
    count = counts.get(name)
    return count if type(count) is int and count > 0 else 0
