"""Compiles filters to SQL for PostgreSQL's `jsonb`: text from constants of this file, and bound values.

The result is equivalent to `filters.matches`; a test compares the two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, assert_never

from foldline.exceptions import UsageError
from foldline.vectorstores._filters import AllOf, AnyOf, Compare, Condition, Exists, Not, Order

__all__ = ["compile_filter", "fits"]

Compiled = tuple[str, list[Any]]
NO_MATCH: Compiled = ("FALSE", [])

NUMBER_COMPARISONS: dict[Order, str] = {
    order: f"CASE WHEN jsonb_typeof(metadata -> ?::text) = 'number' "
    f"THEN (metadata ->> ?::text)::numeric {order} ?::numeric ELSE FALSE END"
    for order in ("<", "<=", ">", ">=")
}
TEXT_COMPARISONS: dict[Order, str] = {
    order: f"CASE WHEN jsonb_typeof(metadata -> ?::text) = 'string' "
    f'THEN (metadata ->> ?::text) COLLATE "C" {order} ?::text ELSE FALSE END'
    for order in ("<", "<=", ">", ">=")
}


def compile_filter(condition: Condition) -> Compiled:
    """Return a condition on the column `metadata`, and the values to bind."""
    if isinstance(condition, Compare):
        return _compare(condition)
    if isinstance(condition, Exists):
        if not fits(condition.key):
            return NO_MATCH
        return "jsonb_exists(metadata, ?::text)", [condition.key]
    if isinstance(condition, Not):
        text, values = compile_filter(condition.part)
        return f"NOT ({text})", values
    if isinstance(condition, AllOf):
        return _join(condition.parts, " AND ", "TRUE")
    if isinstance(condition, AnyOf):
        return _join(condition.parts, " OR ", "FALSE")
    assert_never(condition)


def _join(parts: tuple[Condition, ...], separator: str, if_empty: str) -> Compiled:
    compiled = [compile_filter(part) for part in parts]
    if not compiled:
        return if_empty, []
    text = separator.join(f"({piece})" for piece, _ in compiled)
    return text, [value for _, values in compiled for value in values]


def _compare(condition: Compare) -> Compiled:
    key, value = condition.key, condition.value
    if not fits(key) or not fits(value):
        return NO_MATCH  # no stored document can contain it
    if condition.order == "=":
        return "COALESCE(metadata -> ?::text = ?::jsonb, FALSE)", [key, _json(key, value)]
    if isinstance(value, bool):
        return NO_MATCH
    if isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"the filter on {key!r} compares with {value!r}: use a finite number")
        return NUMBER_COMPARISONS[condition.order], [key, key, _json(key, value)]
    if isinstance(value, str):
        return TEXT_COMPARISONS[condition.order], [key, key, value]
    if value is None or isinstance(value, list | tuple | Mapping):
        return NO_MATCH
    raise UsageError(
        f"the filter on {key!r} compares with {type(value).__name__}: a stored document has numbers and texts"
    )


def _json(key: str, value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the filter on {key!r} has a value that is not JSON: {error}") from error


def fits(value: object) -> bool:
    """Whether PostgreSQL can store a value: no NUL and no lone surrogate in its texts."""
    if isinstance(value, str):
        return "\0" not in value and not any(
            "\ud800" <= character <= "\udfff" for character in value
        )
    if isinstance(value, Mapping):
        return all(fits(part) for item in value.items() for part in item)
    return all(map(fits, value)) if isinstance(value, list | tuple) else True
