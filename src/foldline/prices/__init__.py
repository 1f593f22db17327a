"""Prices per million tokens of each model, and the cost of a usage.

The table is data (`prices.json`, with its date and source). Prices that you register or load from a file override it.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.prices.cost import cost_of as cost_of, message_cost as message_cost
    from foldline.prices.table import (
        PriceTable as PriceTable,
        find_prices as find_prices,
        load_prices as load_prices,
        price_table as price_table,
        register_prices as register_prices,
    )
    from foldline.prices.types import Prices as Prices, Rates as Rates, check_prices as check_prices
