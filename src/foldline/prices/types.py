"""The form of a price: amounts per million tokens. Never per token, never per thousand: see `check_prices`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import TypedDict

from foldline.exceptions import UsageError

__all__ = ["AMOUNTS", "SMALLEST_PRICE", "VARIANTS", "Prices", "Rates", "check_prices"]


class Rates(TypedDict, total=False):
    """What a million tokens cost, in one currency (the table's is US dollars). What is left out is not known."""

    input: float
    """Tokens sent that have no price of their own."""
    output: float
    """Tokens received that have no price of their own."""
    cache_read: float
    """Tokens that the provider had in its cache."""
    cache_creation: float
    """Tokens written to the provider's cache, for the usual time."""
    cache_creation_1h: float
    """Tokens written to the provider's cache for an hour."""
    reasoning: float
    """Tokens of thinking; counted as output where there is no price of their own."""
    input_audio: float
    output_audio: float
    input_image: float
    output_image: float
    above: dict[str, Rates]
    """Number of input tokens -> the prices of a whole request that has more of them."""


class Prices(Rates, total=False):
    """What a million tokens cost, and what they cost as part of a batch or at another level of service."""

    batch: Rates
    flex: Rates
    priority: Rates


AMOUNTS: Final = (
    "input", "output", "cache_read", "cache_creation", "cache_creation_1h", "reasoning", "input_audio", "output_audio",
    "input_image", "output_image",
)  # fmt: skip
VARIANTS: Final = ("batch", "flex", "priority")
SMALLEST_PRICE: Final = 0.001
"""A million tokens of input or output for less than a tenth of a cent: no provider sells that, but many write prices
per token."""


def check_prices(prices: Mapping[str, Any], where: str) -> None:
    """Raise for what is no price; warn of one that looks like a price per token.

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
        elif name in AMOUNTS:
            _check_amount(name, value, where)
        else:
            known = ", ".join((*AMOUNTS, "above", *VARIANTS))
            raise UsageError(f"{where}: {name!r} is no price; known are {known}")


def _tiers(value: object, where: str) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping) or not all(str(start).isdigit() for start in value):
        raise UsageError(
            f"{where}: `above` is a dict of numbers of tokens, as text: {{'200000': {{…}}}}"
        )
    return [(str(start), rates) for start, rates in value.items()]


def _check_amount(name: str, value: object, where: str) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value < 0
    ):
        raise UsageError(
            f"{where}: the price {name}={value!r} is no amount; leave out what is not known"
        )
    if name in ("input", "output") and 0 < value < SMALLEST_PRICE:
        warnings.warn(
            f"{where}: {name}={value:g} looks like a price per token or per thousand; prices are per million tokens "
            f"(per token, {value:g} would be {name}={value * 1e6:g})",
            UserWarning,
            stacklevel=4,
        )
