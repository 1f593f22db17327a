"""Find the prices of a model: registered in code, loaded from files, then foldline's own table.

A name is looked up unchanged, then without its date (`gpt-5-2025-08-07`), and never by its prefix alone: a `mini` has
other prices than the full model.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, cast

from foldline._io import mutex
from foldline.exceptions import UsageError
from foldline.prices.types import Prices, check_prices

__all__ = ["PriceTable", "find_prices", "load_prices", "price_table", "register_prices"]

FILE: Final = Path(__file__).with_name("prices.json")
VARIABLE: Final = "FOLDLINE_PRICES"
"""The environment variable with the path of a price file, read at the first lookup."""
UNIT: Final = "per million tokens"
BEDROCK: Final = "bedrock_converse"
BEDROCK_VERSIONS: Final = ("", "-v1", "-v1:0", "-v2:0")
"""Suffixes of model names on Bedrock."""
SAME_PRICES: Final = {
    "google": "google_genai",
    "google_vertexai": "google_genai",
    "aws": BEDROCK,
    "bedrock": BEDROCK,
    "anthropic_bedrock": BEDROCK,
    "anthropic_vertex": "google_anthropic_vertex",
    "azure": "azure_openai",
    "mistralai": "mistral",
    "dashscope": "qwen",
}
"""Provider name -> the provider name in the price table."""
DATE: Final = re.compile(r"([-@](\d{8}|\d{4}-\d{2}-\d{2}))?(-v\d+(:\d+)?)?$")
REGION: Final = re.compile(r"^(us|us-gov|eu|apac|ap|au|ca|jp|sa|global)\.")


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by provider and model, with their date and source."""

    date: str = ""
    source: str = ""
    currency: str = "USD"
    unit: str = UNIT
    models: Mapping[str, Mapping[str, Prices]] = field(default_factory=dict)
    """Provider -> model -> its prices."""


_lock = mutex()
_registered: dict[str, dict[str, Prices]] = {}
_files: list[PriceTable] = []
_is_variable_read = False


def register_prices(provider: str, prices: Mapping[str, Prices]) -> None:
    """Register the prices of models, per million tokens; a name may end in `*` to match a prefix.

    ```python
    from foldline.prices import find_prices, register_prices

    register_prices("acme", {"anvil-1": {"input": 0.5, "output": 2.0}})
    print(find_prices("acme", "anvil-1"))
    #> {'input': 0.5, 'output': 2.0}
    ```
    """
    for model, row in prices.items():
        check_prices(row, f"{provider}:{model}")
    with _lock:
        _registered.setdefault(_provider(provider), {}).update(prices)
    find_prices.cache_clear()


def load_prices(path: str | Path) -> PriceTable:
    """Load prices from a file in the format of `prices.json`; they override foldline's own.

    It is JSON: `{"date": …, "source": …, "unit": "per million tokens", "models": {provider: {model: prices}}}`.
    The environment variable `FOLDLINE_PRICES` names such a file too.
    """
    table = read_table(path)
    with _lock:
        _files.insert(0, table)
    find_prices.cache_clear()
    return table


@cache
def price_table() -> PriceTable:
    """Return foldline's own table."""
    return _table(json.loads(FILE.read_text(encoding="utf-8")))


@lru_cache(maxsize=1024)
def find_prices(provider: str | None, model: str | None) -> Prices | None:
    """Return the prices of a model, or None if they are unknown."""
    if not provider or not model:
        return None
    _read_variable()
    table_provider = _provider(provider)
    registered = _registered.get(table_provider, {})
    names = list(_names(model))
    if table_provider == BEDROCK and model.startswith(
        "claude"
    ):  # the model name in Claude's answers
        names += [f"anthropic.{model}{version}" for version in BEDROCK_VERSIONS]
    for name in names:
        if name in registered:
            return registered[name]
    prefixes = [key for key in registered if key.endswith("*") and model.startswith(key[:-1])]
    if prefixes:
        return registered[max(prefixes, key=len)]
    for table in (*_files, price_table()):
        rows = table.models.get(table_provider, {})
        for name in names:
            if name in rows:
                return rows[name]
    return None


def read_table(path: str | Path) -> PriceTable:
    """Return the table of a price file; raise if a price is invalid."""
    location = str(path)
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{location}: the prices cannot be read: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("models"), dict):
        raise UsageError(
            f'{location}: a file of prices is {{"models": {{provider: {{model: prices}}}}}}'
        )
    if data.get("unit", UNIT) != UNIT:
        raise UsageError(
            f'{location}: the unit is {data["unit"]!r}: write prices {UNIT}, and "unit": {UNIT!r}'
        )
    for provider, rows in data["models"].items():
        if not isinstance(rows, dict):
            raise UsageError(
                f"{location}: {provider}: a dict of models and their prices, not {rows!r:.60}"
            )
        for model, row in rows.items():
            check_prices(row, f"{location}: {provider}:{model}")
    return _table(data)


def _table(data: dict[str, Any]) -> PriceTable:
    models = {_provider(provider): rows for provider, rows in data["models"].items()}
    names = ("date", "source", "currency", "unit")
    texts = {name: str(data[name]) for name in names if name in data}
    return PriceTable(**texts, models=cast("Any", models))


def _read_variable() -> None:
    global _is_variable_read
    if _is_variable_read:
        return
    if path := os.environ.get(VARIABLE):
        _files.append(read_table(path))
    _is_variable_read = True


def _provider(name: str) -> str:
    return SAME_PRICES.get(name, name)


def _names(model: str) -> Iterator[str]:
    """Yield the names to look up for a model, the most specific first."""
    name = model.removeprefix("models/")
    if name.startswith("arn:"):
        name = name.rpartition("/")[2]
    if name.startswith("ft:"):
        name = ":".join(name.split(":")[:2])
    yield name
    for other in (DATE.sub("", name), name.removesuffix("-latest")):
        if other != name:
            yield other
    if REGION.match(name):
        yield REGION.sub("", name)
