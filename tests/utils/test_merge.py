"""Generic merging: LangChain's results where they are associative, and associative where they are not."""

import pytest
from hypothesis import given, strategies as st

from foldline.utils._merge import merge_dicts, merge_lists, merge_obj


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({"a": "x"}, {"a": "y"}, {"a": "xy"}),
        ({"a": None}, {"a": 1}, {"a": 1}),
        ({"a": "x"}, {"a": None}, {"a": "x"}),
        ({"a": [1]}, {"a": [2]}, {"a": [1, 2]}),
        ({"a": {"b": "x"}}, {"a": {"b": "y"}}, {"a": {"b": "xy"}}),
        ({"id": "1", "index": 0}, {"id": "1", "index": 0}, {"id": "1", "index": 0}),
        ({"a": True}, {"a": True}, {"a": True}),
        ({"created": 1}, {"created": 2}, {"created": 2}),
        (
            {"a": [{"index": 0, "t": "x"}]},
            {"a": [{"index": 0, "t": "y"}]},
            {"a": [{"index": 0, "t": "xy"}]},
        ),
    ],
)
def test_dicts_merge_as_in_langchain(left, right, expected):
    assert merge_dicts(left, right) == expected


def test_identities_keep_their_first_value_and_numbers_take_the_newest():
    assert merge_dicts({"type": "t", "n": 1}, {"type": "t", "n": 2}) == {"type": "t", "n": 2}


def test_items_with_one_index_are_one_item_unless_their_ids_differ():
    assert merge_lists([{"index": 0, "x": "a"}], None, [{"index": 0, "x": "b"}]) == [
        {"index": 0, "x": "ab"}
    ]
    assert merge_lists(
        [{"index": 0, "id": "1"}], [{"index": 0, "id": "2"}], [{"index": 0, "x": "c"}]
    ) == [
        {"index": 0, "id": "1"},
        {"index": 0, "id": "2", "x": "c"},
    ]
    assert merge_lists([{"x": 1}], [{"x": 1}, "a"]) == [{"x": 1}, {"x": 1}, "a"]
    assert merge_lists(None, None) is None


def test_kinds_that_do_not_mix_are_refused():
    with pytest.raises(TypeError, match="int and str under the name 'a'"):
        merge_dicts({"a": 1}, {"a": "x"})


def test_single_values_merge_too():
    assert merge_obj(None, 1) == merge_obj(1, None) == 1
    assert merge_obj("a", "b") == "ab"


ITEMS = st.lists(
    st.fixed_dictionaries(
        {"x": st.text("ab", max_size=2)},
        optional={
            "index": st.integers(0, 1),
            "id": st.sampled_from(["1", "2"]),
            "n": st.integers(0, 3),
        },
    ),
    max_size=3,
)
PIECES = st.fixed_dictionaries(
    {},
    optional={
        "text": st.text("ab", max_size=2),
        "n": st.integers(0, 3),
        "id": st.text("12"),
        "items": ITEMS,
    },
)


@given(PIECES, PIECES, PIECES)
def test_merging_is_associative(first, two, three):
    assert merge_dicts(merge_dicts(first, two), three) == merge_dicts(
        first, merge_dicts(two, three)
    )


def test_what_is_merged_is_not_changed():
    left = {"a": [{"index": 0, "x": "a"}]}
    merge_dicts(left, {"a": [{"index": 0, "x": "b"}]})

    assert left == {"a": [{"index": 0, "x": "a"}]}
