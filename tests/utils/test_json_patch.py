"""JSON Patch: the patch of two values, applied to the first, results in the second."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from foldline.exceptions import UsageError
from foldline.messages import AIMessage
from foldline.utils._json_patch import apply_patch, make_patch, write_pointer

LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab/~0", max_size=3)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~", max_size=2), inner),
    max_leaves=10,
)


def typed(value: Any) -> Any:
    """The value with its types, because `True == 1`."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value), value


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(VALUES, VALUES)
def test_a_patch_turns_one_value_into_the_other(old: Any, new: Any):
    before = typed(old)

    assert typed(apply_patch(old, make_patch(old, new))) == typed(new)
    assert typed(old) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, 1),
        ({"a": 1}, {"a": 1, "b": {"c": [1]}}),
        ({"a": 1, "b": 2}, {"b": 3}),
        ({"a/b": {"~": 1}}, {"a/b": {"~": 2, "/": 3}}),
        ([1], [1, 2]),
        ("a", "ab"),
        (1, True),
        ([1, 2], [True, 2, 3]),
        (AIMessage("a"), AIMessage("b")),
    ],
)
def test_a_patch_of_a_value_inside_a_document_gives_the_new_value(old: Any, new: Any):
    state = {"x": old}

    new_state = apply_patch(state, make_patch(old, new, "/x"))

    assert typed(new_state) == {"x": typed(new)}
    assert state == {"x": old}


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {"a": 1}, []),
        ([1, 2, 3], [1], [{"op": "remove", "path": "/2"}, {"op": "remove", "path": "/1"}]),
        ([1], [1, 2], [{"op": "add", "path": "/1", "value": 2}]),
        ([{"a": 1}], [{"a": 2}], [{"op": "replace", "path": "/0/a", "value": 2}]),
        ({"a": 1}, {"b": 2}, [{"op": "remove", "path": "/a"}, {"op": "add", "path": "/b", "value": 2}]),
        ({"a": 1}, [1], [{"op": "replace", "path": "", "value": [1]}]),
    ],
)  # fmt: skip
def test_a_patch_says_only_what_changed(old: Any, new: Any, patch: Any):
    assert make_patch(old, new) == patch


def test_lists_are_patched_in_place_and_out_of_it():
    state = {"l": [1, {"a": 1}]}

    assert apply_patch(state, [{"op": "replace", "path": "/l/0", "value": 5}]) == {
        "l": [5, {"a": 1}]
    }
    assert apply_patch(state, [{"op": "remove", "path": "/l/0"}]) == {"l": [{"a": 1}]}
    assert apply_patch(state, [{"op": "add", "path": "/l/-", "value": 2}]) == {
        "l": [1, {"a": 1}, 2]
    }
    assert apply_patch(state, [{"op": "add", "path": "/l/1/b", "value": 2}]) == {
        "l": [1, {"a": 1, "b": 2}]
    }
    assert write_pointer("a/b", "c~d") == "/a~1b/c~0d"


def test_a_patch_for_what_is_not_there_is_refused():
    with pytest.raises(UsageError, match="'/a/b': apply patches in their order"):
        apply_patch({}, [{"op": "add", "path": "/a/b", "value": 1}])
    with pytest.raises(UsageError, match="in their order"):
        apply_patch(None, [{"op": "add", "path": "/a", "value": 1}])
