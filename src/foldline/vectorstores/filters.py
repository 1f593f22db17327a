"""Filters on metadata: a dict is read once into a small tree, which Python can ask and a database can be given.

```
{"colour": "red"}                              the value is red
{"price": {"$gt": 3, "$lte": 9}}               all of them
{"colour": {"$in": ["red", "blue"]}}           any of them
{"$or": [{"a": 1}, {"b": {"$exists": True}}]}  also $and, $not
```

A key is a name at the top of the metadata, whatever signs are in it; never a path, and never part of a statement.
Values are equal as JSON has it: 1 is 1.0 but not true. A missing key is equal to nothing, not even to null. Only
numbers with numbers and texts with texts are greater or less.
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
"""What users give: a dict as above, or a function of the document."""
Order: TypeAlias = Literal["=", "<", "<=", ">", ">="]

DEEPEST = 32
"""How deep filters may be nested; they may come from strangers."""


@dataclass(frozen=True, slots=True)
class Compare:
    """The value of a key, compared."""

    key: str
    order: Order
    value: Any


@dataclass(frozen=True, slots=True)
class Exists:
    """The key is there."""

    key: str


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    part: Condition


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of them; none is true."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of them; none is false."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Compare | Exists | Not | AllOf | AnyOf

ORDERS: dict[str, Order] = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def parse_filter(given: Mapping[str, Any]) -> Condition:
    """Read a dict into a tree."""
    return _parse(given, 0)


def _parse(given: object, depth: int) -> Condition:
    if depth > DEEPEST:
        raise UsageError(f"a filter is nested deeper than {DEEPEST} levels")
    if not isinstance(given, Mapping):
        raise UsageError(f"a filter is a dict of keys and values, not {type(given).__name__}")
    return _all_of(_parse_item(key, value, depth) for key, value in given.items())


def _all_of(parts: Iterable[Any]) -> Condition:
    listed = tuple(parts)
    return cast("Condition", listed[0]) if len(listed) == 1 else AllOf(listed)


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
        anything = AnyOf(tuple(Compare(key, "=", value) for value in operand))
        return anything if name == "$in" else Not(anything)
    if name == "$exists":
        return Exists(key) if operand else Not(Exists(key))
    known = ", ".join([*ORDERS, "$ne", "$in", "$nin", "$exists"])
    raise UsageError(f"the filter on {key!r} has {name!r}: an operator is one of {known}")


def matches(condition: Condition, metadata: Mapping[str, Any]) -> bool:
    """Ask a tree about metadata."""
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


def predicate(given: Filter | None) -> Callable[[Document], bool] | None:
    """Return a function of the document for any filter; None where there is nothing to filter."""
    if given is None:
        return None
    if callable(given):
        return given
    condition = parse_filter(given)
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
        return "truth" if isinstance(value, bool) else "null"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list | tuple):
        return "list"
    return "object" if isinstance(value, Mapping) else "other"
