"""Filters as SQL for PostgreSQL's `jsonb`: pieces that are constants of this file, and values that are always bound.

It means exactly what `filters.matches` means; a test holds the two equal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, assert_never

from foldline.exceptions import UsageError
from foldline.vectorstores.filters import AllOf, AnyOf, Compare, Condition, Exists, Not, Order

__all__ = ["compile_filter", "fits"]

Compiled = tuple[str, list[Any]]
NOTHING: Compiled = ("FALSE", [])

NUMBERS: dict[Order, str] = {
    order: f"CASE WHEN jsonb_typeof(metadata -> %s::text) = 'number' "
    f"THEN (metadata ->> %s::text)::numeric {order} %s::numeric ELSE FALSE END"
    for order in ("<", "<=", ">", ">=")
}
TEXTS: dict[Order, str] = {
    order: f"CASE WHEN jsonb_typeof(metadata -> %s::text) = 'string' "
    f'THEN (metadata ->> %s::text) COLLATE "C" {order} %s::text ELSE FALSE END'
    for order in ("<", "<=", ">", ">=")
}


def compile_filter(condition: Condition) -> Compiled:
    """Return a condition on the column `metadata`, and the values to bind."""
    if isinstance(condition, Compare):
        return _compare(condition)
    if isinstance(condition, Exists):
        if not fits(condition.key):
            return NOTHING
        return "jsonb_exists(metadata, %s::text)", [condition.key]
    if isinstance(condition, Not):
        text, values = compile_filter(condition.part)
        return f"NOT ({text})", values
    if isinstance(condition, AllOf):
        return _joined(condition.parts, " AND ", "TRUE")
    if isinstance(condition, AnyOf):
        return _joined(condition.parts, " OR ", "FALSE")
    assert_never(condition)


def _joined(parts: tuple[Condition, ...], between: str, none: str) -> Compiled:
    compiled = [compile_filter(part) for part in parts]
    if not compiled:
        return none, []
    text = between.join(f"({piece})" for piece, _ in compiled)
    return text, [value for _, values in compiled for value in values]


def _compare(condition: Compare) -> Compiled:
    key, value = condition.key, condition.value
    if not fits(key) or not fits(value):
        return NOTHING  # no stored document can have it
    if condition.order == "=":
        return "COALESCE(metadata -> %s::text = %s::jsonb, FALSE)", [key, _json(key, value)]
    if isinstance(value, bool):
        return NOTHING
    if isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"the filter on {key!r} compares with {value!r}: give a number")
        return NUMBERS[condition.order], [key, key, _json(key, value)]
    if isinstance(value, str):
        return TEXTS[condition.order], [key, key, value]
    if value is None or isinstance(value, list | tuple | Mapping):
        return NOTHING
    raise UsageError(
        f"the filter on {key!r} compares with {type(value).__name__}: a stored document has numbers and texts"
    )


def _json(key: str, value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the filter on {key!r} has a value that is not JSON: {error}") from error


def fits(value: object) -> bool:
    """Whether PostgreSQL can hold a value: no NUL, no half of a surrogate pair in a text."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= sign <= "\udfff" for sign in value)
    if isinstance(value, Mapping):
        return all(fits(part) for item in value.items() for part in item)
    return all(map(fits, value)) if isinstance(value, list | tuple) else True
