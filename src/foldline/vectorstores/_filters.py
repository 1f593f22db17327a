"""Filters on metadata: a dict is parsed once into a tree, which Python evaluates or which is compiled to SQL.

```
{"color": "red"}                               the value is red
{"price": {"$gt": 3, "$lte": 9}}               all of them
{"color": {"$in": ["red", "blue"]}}            any of them
{"$or": [{"a": 1}, {"b": {"$exists": True}}]}  also $and, $not
```

A key is a top-level name of the metadata with any characters; it is never a path, and never part of a statement.
Values compare as in JSON: 1 equals 1.0 but not true. A missing key equals no value, not even null. Only two numbers or
two texts can be ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, assert_never, cast

from foldline.documents.base import Document
from foldline.exceptions import UsageError

__all__ = [
    "AllOf",
    "AnyOf",
    "Compare",
    "Condition",
    "Exists",
    "Filter",
    "Not",
    "Order",
    "matches",
    "parse_filter",
    "predicate",
]

Filter: TypeAlias = Mapping[str, Any] | Callable[[Document], bool]
"""A filter as users write it: a dict as above, or a function of the document."""
Order: TypeAlias = Literal["=", "<", "<=", ">", ">="]

MAX_DEPTH = 32
"""How deep filters may be nested; they may come from untrusted users."""


@dataclass(frozen=True, slots=True)
class Compare:
    """Compares the value of a key with another value."""

    key: str
    order: Order
    value: Any


@dataclass(frozen=True, slots=True)
class Exists:
    """True if the metadata has the key."""

    key: str


@dataclass(frozen=True, slots=True)
class Not:
    """Negates a condition."""

    part: Condition


@dataclass(frozen=True, slots=True)
class AllOf:
    """True if all parts are true; also if there are none."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True if at least one part is true; false if there are none."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Compare | Exists | Not | AllOf | AnyOf

ORDERS: dict[str, Order] = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def parse_filter(filter: Mapping[str, Any]) -> Condition:
    """Parse a dict into a tree."""
    return _parse(filter, 0)


def _parse(filter: object, depth: int) -> Condition:
    if depth > MAX_DEPTH:
        raise UsageError(f"a filter is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(filter, Mapping):
        raise UsageError(f"a filter is a dict of keys and values, not {type(filter).__name__}")
    return _all_of(_parse_item(key, value, depth) for key, value in filter.items())


def _all_of(parts: Iterable[Any]) -> Condition:
    conditions = tuple(parts)
    return cast("Condition", conditions[0]) if len(conditions) == 1 else AllOf(conditions)


def _parse_item(key: str, value: object, depth: int) -> Condition:
    if not isinstance(key, str):
        raise UsageError(f"a filter's keys are texts, not {key!r}")
    if key in ("$and", "$or"):
        if not isinstance(value, list | tuple):
            raise UsageError(f"{key} takes a list of filters, not {type(value).__name__}")
        parts = tuple(_parse(part, depth + 1) for part in value)
        return AllOf(parts) if key == "$and" else AnyOf(parts)
    if key == "$not":
        return Not(_parse(value, depth + 1))
    if key.startswith("$"):
        raise UsageError(f"a filter knows $and, $or and $not at its top, not {key!r}")
    if not (isinstance(value, Mapping) and any(str(name).startswith("$") for name in value)):
        return Compare(key, "=", value)
    return _all_of(_parse_operator(key, name, operand) for name, operand in value.items())


def _parse_operator(key: str, name: str, operand: object) -> Condition:
    if name in ORDERS:
        return Compare(key, ORDERS[name], operand)
    if name == "$ne":
        return Not(Compare(key, "=", operand))
    if name in ("$in", "$nin"):
        if not isinstance(operand, list | tuple | set | frozenset):
            raise UsageError(f"{name} takes a list of values, not {type(operand).__name__}")
        is_in = AnyOf(tuple(Compare(key, "=", value) for value in operand))
        return is_in if name == "$in" else Not(is_in)
    if name == "$exists":
        return Exists(key) if operand else Not(Exists(key))
    operators = ", ".join([*ORDERS, "$ne", "$in", "$nin", "$exists"])
    raise UsageError(f"the filter on {key!r} has {name!r}: an operator is one of {operators}")


def matches(condition: Condition, metadata: Mapping[str, Any]) -> bool:
    """Whether metadata fulfils a condition."""
    if isinstance(condition, Compare):
        return condition.key in metadata and _compare(
            metadata[condition.key], condition.order, condition.value
        )
    if isinstance(condition, Exists):
        return condition.key in metadata
    if isinstance(condition, Not):
        return not matches(condition.part, metadata)
    if isinstance(condition, AllOf):
        return all(matches(part, metadata) for part in condition.parts)
    if isinstance(condition, AnyOf):
        return any(matches(part, metadata) for part in condition.parts)
    assert_never(condition)


def predicate(filter: Filter | None) -> Callable[[Document], bool] | None:
    """Return a function of the document for any filter; None for no filter."""
    if filter is None:
        return None
    if callable(filter):
        return filter
    condition = parse_filter(filter)
    return lambda document: matches(condition, document.metadata)


def _compare(left: Any, order: Order, right: Any) -> bool:  # noqa: ANN401  values of metadata, which may not be comparable
    if order == "=":
        return _is_equal(left, right)
    if not (_kind(left) == _kind(right) and _kind(left) in ("number", "text", "other")):
        return False
    try:
        if order == "<":
            return bool(left < right)
        if order == "<=":
            return bool(left <= right)
        return bool(left > right) if order == ">" else bool(left >= right)
    except TypeError:  # two dates, one with a zone and one without
        return False


def _is_equal(left: Any, right: Any) -> bool:  # noqa: ANN401  values of metadata, which may not be comparable
    if _kind(left) != _kind(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(_is_equal, left, right))
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(_is_equal(left[key], right[key]) for key in left)
    return bool(left == right)


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "boolean" if isinstance(value, bool) else "null"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list | tuple):
        return "list"
    return "object" if isinstance(value, Mapping) else "other"
