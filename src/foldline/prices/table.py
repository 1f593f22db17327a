"""Which prices a model has: yours in code, yours in files, then the table that foldline comes with.

A name is looked for as it is, then without its date (`gpt-5-2025-08-07`), and never by its beginning alone: a `mini`
does not cost what the model that it is made of does.
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
"""Names a file of your own prices, read when a price is first looked for."""
UNIT: Final = "per million tokens"
BEDROCK: Final = "bedrock_converse"
BEDROCK_VERSIONS: Final = ("", "-v1", "-v1:0", "-v2:0")
"""How the names of models end on Bedrock."""
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
"""Another name of a provider -> the one its prices stand under."""
DATE: Final = re.compile(r"([-@](\d{8}|\d{4}-\d{2}-\d{2}))?(-v\d+(:\d+)?)?$")
REGION: Final = re.compile(r"^(us|us-gov|eu|apac|ap|au|ca|jp|sa|global)\.")


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by provider and model, with the day and the place they are from."""

    date: str = ""
    source: str = ""
    currency: str = "USD"
    unit: str = UNIT
    models: Mapping[str, Mapping[str, Prices]] = field(default_factory=dict)
    """Provider -> model -> its prices."""


_lock = mutex()
_own: dict[str, dict[str, Prices]] = {}
_files: list[PriceTable] = []
_is_variable_read = False


def register_prices(provider: str, prices: Mapping[str, Prices]) -> None:
    """Say what models cost, per million tokens; a name may end in `*` for all that begin so.

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
        _own.setdefault(_provider(provider), {}).update(prices)
    find_prices.cache_clear()


def load_prices(path: str | Path) -> PriceTable:
    """Put the prices of a file before those of foldline's own; the file has the form of `prices.json`.

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
    """Return the table that foldline comes with."""
    return _table(json.loads(FILE.read_text(encoding="utf-8")))


@lru_cache(maxsize=1024)
def find_prices(provider: str | None, model: str | None) -> Prices | None:
    """Return what a model's tokens cost; None where that is not known."""
    if not provider or not model:
        return None
    _read_variable()
    home = _provider(provider)
    own = _own.get(home, {})
    names = list(_names(model))
    if home == BEDROCK and model.startswith("claude"):  # as Claude names itself in its answers
        names += [f"anthropic.{model}{version}" for version in BEDROCK_VERSIONS]
    for name in names:
        if name in own:
            return own[name]
    beginnings = [key for key in own if key.endswith("*") and model.startswith(key[:-1])]
    if beginnings:
        return own[max(beginnings, key=len)]
    for table in (*_files, price_table()):
        rows = table.models.get(home, {})
        for name in names:
            if name in rows:
                return rows[name]
    return None


def read_table(path: str | Path) -> PriceTable:
    """Read a file of prices, and check every one."""
    where = str(path)
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{where}: the prices cannot be read: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("models"), dict):
        raise UsageError(
            f'{where}: a file of prices is {{"models": {{provider: {{model: prices}}}}}}'
        )
    if data.get("unit", UNIT) != UNIT:
        raise UsageError(
            f'{where}: the unit is {data["unit"]!r}: write prices {UNIT}, and "unit": {UNIT!r}'
        )
    for provider, rows in data["models"].items():
        if not isinstance(rows, dict):
            raise UsageError(
                f"{where}: {provider}: a dict of models and their prices, not {rows!r:.60}"
            )
        for model, row in rows.items():
            check_prices(row, f"{where}: {provider}:{model}")
    return _table(data)


def _table(data: dict[str, Any]) -> PriceTable:
    models = {_provider(provider): rows for provider, rows in data["models"].items()}
    names = ("date", "source", "currency", "unit")
    words = {name: str(data[name]) for name in names if name in data}
    return PriceTable(**words, models=cast("Any", models))


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
    """Return the names that a model may stand under, the most exact first."""
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
