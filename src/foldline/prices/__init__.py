"""Prices per million tokens of each model, and the cost of a usage.

The table is data (`prices.json`, with its date and source). Prices that you register or load from a file override it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.prices.cost import cost_of, message_cost
    from foldline.prices.table import (
        PriceTable,
        find_prices,
        load_prices,
        price_table,
        register_prices,
    )
    from foldline.prices.types import Prices, Rates, check_prices

__all__ = [
    "PriceTable",
    "Prices",
    "Rates",
    "check_prices",
    "cost_of",
    "find_prices",
    "load_prices",
    "message_cost",
    "price_table",
    "register_prices",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".cost": "cost_of message_cost",
        ".table": "PriceTable find_prices load_prices price_table register_prices",
        ".types": "Prices Rates check_prices",
    },
)
