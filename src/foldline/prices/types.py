"""The types of prices: amounts per million tokens, never per token or per thousand (see `check_prices`)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import TypedDict

from foldline.exceptions import UsageError

__all__ = [
    "Prices",
    "Rates",
    "check_prices",
]


class Rates(TypedDict, total=False):
    """Prices per million tokens, in one currency (the table's is US dollars). Missing prices are unknown."""

    input: float
    """Input tokens without a separate price."""
    output: float
    """Output tokens without a separate price."""
    cache_read: float
    """Input tokens read from the provider's cache."""
    cache_creation: float
    """Input tokens written to the provider's cache, with the default lifetime."""
    cache_creation_1h: float
    """Input tokens written to the provider's cache for an hour."""
    reasoning: float
    """Reasoning tokens; priced as output if this is missing."""
    input_audio: float
    output_audio: float
    input_image: float
    output_image: float
    above: dict[str, Rates]
    """Number of input tokens -> the prices of a request with more input tokens than this."""


class Prices(Rates, total=False):
    """Prices per million tokens, also for batches and other service tiers."""

    batch: Rates
    flex: Rates
    priority: Rates


PRICE_NAMES: Final = (
    "input", "output", "cache_read", "cache_creation", "cache_creation_1h", "reasoning", "input_audio", "output_audio",
    "input_image", "output_image",
)  # fmt: skip
VARIANTS: Final = ("batch", "flex", "priority")
MIN_PLAUSIBLE_PRICE: Final = 0.001
"""A lower price for a million input or output tokens is probably a price per token."""


def check_prices(prices: Mapping[str, Any], where: str) -> None:
    """Raise on an invalid price; warn about one that looks like a price per token.

    ```python
    import warnings

    from foldline.prices import check_prices

    with warnings.catch_warnings(record=True) as questions:
        warnings.simplefilter("always")
        check_prices({"input": 0.00000125, "output": 0.00001}, "my-model")
    print(str(questions[0].message).split(":")[0])
    #> my-model
    ```
    """
    if not isinstance(prices, Mapping):
        raise UsageError(f"{where}: prices are a dict such as {{'input': 1.25, 'output': 10}}")
    for name, value in prices.items():
        if name in VARIANTS:
            check_prices(value, f"{where}: {name}")
        elif name == "above":
            for start, rates in _tiers(value, where):
                check_prices(rates, f"{where}: above {start}")
        elif name in PRICE_NAMES:
            _check_amount(name, value, where)
        else:
            names = ", ".join((*PRICE_NAMES, "above", *VARIANTS))
            raise UsageError(f"{where}: {name!r} is no price; known are {names}")


def _tiers(value: object, location: str) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping) or not all(str(start).isdigit() for start in value):
        raise UsageError(
            f"{location}: `above` is a dict of numbers of tokens, as text: {{'200000': {{…}}}}"
        )
    return [(str(start), rates) for start, rates in value.items()]


def _check_amount(name: str, value: object, location: str) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value < 0
    ):
        raise UsageError(
            f"{location}: the price {name}={value!r} is no amount; leave out what is not known"
        )
    if name in ("input", "output") and 0 < value < MIN_PLAUSIBLE_PRICE:
        warnings.warn(
            f"{location}: {name}={value:g} looks like a price per token or per thousand; prices are per million tokens "
            f"(per token, {value:g} would be {name}={value * 1e6:g})",
            UserWarning,
            stacklevel=4,
        )
