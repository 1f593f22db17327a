"""Strategies for load and dump: every JSON value, and look-alikes of our own tags at any depth."""

from __future__ import annotations

import datetime
from typing import Any

from hypothesis import strategies as st

TAG_KEYS = ["lc", "type", "id", "kwargs", "value", "name", "graph", "repr", "__lc_escaped__", ""]
TAG_TEXTS = ["constructor", "secret", "value", "not_implemented", "dict", "map", "OPENAI_API_KEY"]

texts = st.text(st.characters(), max_size=8) | st.sampled_from(TAG_TEXTS)
keys = texts | st.sampled_from(TAG_KEYS)
numbers = st.integers() | st.sampled_from([1, 2**64, 10**400, -(10**4000)]) | st.floats()
scalars = st.none() | st.booleans() | numbers | texts

ids = st.sampled_from(
    [
        ["foldline", "messages", "HumanMessage"],
        ["langchain", "schema", "messages", "AIMessage"],
        ["langchain_core", "documents", "base", "Document"],
        ["os", "system"],
        ["OPENAI_API_KEY"],
        ["tuple"],
        ["dict"],
    ]
)


def look_alikes(children: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Dicts from a user that look like a serialized object."""
    kinds = st.sampled_from(["constructor", "secret", "not_implemented", "value", "other"])
    return st.fixed_dictionaries(
        {"lc": st.just(1) | st.just(2) | children, "type": kinds, "id": ids | children},
        optional={"kwargs": st.dictionaries(keys, children, max_size=2), "value": children},
    )


json_values = st.recursive(
    scalars,
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(keys, children, max_size=3)
        | look_alikes(children)
        | st.builds(lambda value: {"__lc_escaped__": value}, children)
    ),
    max_leaves=12,
)

hashables = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=4)
    | st.uuids()
    | st.tuples(st.integers(), texts)
)

python_values = st.recursive(
    scalars
    | st.binary(max_size=8)
    | st.binary(max_size=8).map(bytearray)
    | st.datetimes(timezones=st.none() | st.just(datetime.UTC))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.sets(hashables, max_size=3)
    | st.frozensets(hashables, max_size=3),
    lambda children: (
        st.lists(children, max_size=3)
        | st.lists(children, max_size=3).map(tuple)
        | st.dictionaries(keys | hashables, children, max_size=3)
        | look_alikes(children)
    ),
    max_leaves=10,
)


def same(left: Any, right: Any) -> bool:
    """Equal, of equal types all the way down; NaN is itself, and -0.0 is not 0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return len(left) == len(right) and all(
            same(a, b) and same(left[a], right[b]) for a, b in zip(left, right, strict=True)
        )
    return bool(left == right)
