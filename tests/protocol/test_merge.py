"""The one table of merge rules."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given, strategies as st

from foldline.exceptions import LimitExceededError
from foldline.protocol import BLOCK_TYPES, RULES, add_usage, blocks as block_types
from foldline.protocol.merge import (
    copy_json,
    grow_name,
    merge_block,
    merge_dicts,
    merge_lists,
    merge_metadata,
    replace_usage,
)
from tests.strategies import citations, ids, json_objects, names, texts


def merge_parts(*parts):
    block = {}
    for part in parts:
        merge_block(block, part)
    return block


def test_text_is_appended_and_the_type_stays():
    assert merge_parts({"type": "text", "text": "a"}, {"type": "text", "text": "b"}) == {
        "type": "text",
        "text": "ab",
    }


def test_T14_citations_in_separate_parts_are_both_kept():
    first, second = {"type": "citation", "url": "a"}, {"type": "citation", "url": "b"}

    block = merge_parts(
        {"type": "text", "text": "x", "annotations": [first]},
        {"type": "text", "annotations": [second]},
    )

    assert block["annotations"] == [first, second]


def test_T17_a_signature_in_two_parts_is_merged():
    block = merge_parts({"extras": {"signature": "ab", "kept": 1}}, {"extras": {"signature": "cd"}})

    assert block["extras"] == {"signature": "abcd", "kept": 1}


@pytest.mark.parametrize("nothing", ["", None])
def test_T22_an_empty_id_or_name_never_overwrites(nothing):
    block = merge_parts(
        {"type": "tool_call_chunk", "id": "c1", "name": "look", "args": "{"},
        {"type": "tool_call_chunk", "id": nothing, "name": nothing, "args": "}"},
    )

    assert block == {"type": "tool_call_chunk", "id": "c1", "name": "look", "args": "{}"}


def test_an_empty_id_gives_way_to_a_later_one():
    assert merge_parts({"id": ""}, {"id": "c1"}) == {"id": "c1"}
    assert merge_parts({"id": None}, {"id": "c1"}) == {"id": "c1"}


def test_ids_and_names_of_models_in_extras_are_never_doubled():
    extras = {"item_id": "i1", "model_name": "m", "status": "done", "note": "a"}

    block = merge_parts({"extras": extras}, {"extras": extras})

    assert block["extras"] == {"item_id": "i1", "model_name": "m", "status": "done", "note": "aa"}


@pytest.mark.parametrize(
    ("name", "piece", "has_args", "expected"),
    [
        ("get_", "weather", False, "get_weather"),
        ("get_weather", "get_weather", False, "get_weather"),
        ("look", "up", True, "look"),
        (None, "look", True, "look"),
        ("look", "", False, "look"),
        (None, None, False, None),
    ],
)
def test_T26_a_name_in_pieces_is_joined_only_before_the_arguments(name, piece, has_args, expected):
    assert grow_name(name, piece, has_args=has_args) == expected


def test_a_part_is_left_alone_and_not_shared():
    part = {"type": "text", "extras": {"list": [1]}}
    before = deepcopy(part)

    block = merge_parts(part, {"extras": {"list": [2]}})
    block["extras"]["list"].append(3)

    assert part == before


def test_what_cannot_be_combined_is_replaced():
    assert merge_parts({"annotations": [1]}, {"annotations": {"a": 1}}) == {"annotations": {"a": 1}}
    assert merge_parts({"args": "{"}, {"args": {"a": 1}}) == {"args": {"a": 1}}
    assert merge_parts({"extras": {"a": 1}}, {"extras": "x"}) == {"extras": "x"}


def test_items_of_lists_with_the_same_index_are_one_item():
    left = [{"index": 0, "args": "{"}, {"index": 1, "args": "["}, "plain"]
    right = [{"index": 1, "args": "]"}, {"index": 2}, "plain"]

    assert merge_lists(left, right) == [
        {"index": 0, "args": "{"},
        {"index": 1, "args": "[]"},
        "plain",
        {"index": 2},
        "plain",
    ]


def test_T58_usage_is_summed_with_its_details():
    first = {"input_tokens": 3, "input_token_details": {"cache_read": 1}}
    second = {
        "input_tokens": 0,
        "output_tokens": 5,
        "input_token_details": {"cache_read": 2, "audio": 4},
    }

    assert add_usage(first, second) == {
        "input_tokens": 3,
        "output_tokens": 5,
        "input_token_details": {"cache_read": 3, "audio": 4},
    }


def test_T59_running_totals_are_replaced():
    assert replace_usage(
        {"input_tokens": 3, "output_tokens": 1, "output_token_details": {"reasoning": 1}},
        {"output_tokens": 7, "output_token_details": {"reasoning": 4}},
    ) == {"input_tokens": 3, "output_tokens": 7, "output_token_details": {"reasoning": 4}}


def test_T61_unknown_usage_keys_are_kept():
    usage = add_usage(
        {"search_units": 1, "tier": "a"}, {"search_units": 2, "tier": "a", "note": None}
    )

    assert usage == {"search_units": 3, "tier": "a", "note": None}


def test_T63_T64_metadata_takes_the_last_that_says_something_and_joins_no_text():
    metadata = merge_metadata(
        {"finish_reason": None, "model_name": "m", "logprobs": {"content": [1]}},
        {"finish_reason": "stop", "model_name": "m", "logprobs": {"content": [2]}},
    )

    assert metadata == {
        "finish_reason": "stop",
        "model_name": "m",
        "logprobs": {"content": [1, 2]},
    }
    assert merge_metadata(metadata, {"finish_reason": None, "model_name": ""}) == metadata


def test_every_declared_field_of_every_block_has_a_rule():
    fields = {
        field
        for name in dir(block_types)
        if isinstance(thing := getattr(block_types, name), type)
        and name.endswith(("ContentBlock", "Call", "CallChunk", "ToolResult"))
        for field in thing.__annotations__
    }

    assert fields <= set(RULES)
    assert len(BLOCK_TYPES) == 15


def test_a_value_that_contains_itself_is_a_typed_error():
    knot = []
    knot.append(knot)

    with pytest.raises(LimitExceededError, match="contains itself"):
        copy_json(knot)
    with pytest.raises(LimitExceededError):
        merge_parts({"type": "non_standard", "value": {"a": knot}})


parts = st.fixed_dictionaries(
    {"type": st.just("text")},
    optional={
        "text": texts,
        "id": ids | st.just("") | st.none(),
        "annotations": st.lists(citations, max_size=2),
        "extras": st.fixed_dictionaries(
            {},
            optional={
                "signature": texts,
                "item_id": texts | st.none(),
                "nested": st.dictionaries(names, st.lists(st.integers(), max_size=2), max_size=2),
                "number": st.integers(),
            },
        ),
        "mime_type": texts | st.none(),
        "args": texts | st.none(),
    },
)


@given(parts, parts, parts)
def test_merging_blocks_is_associative(a, b, c):
    assert merge_parts(merge_parts(a, b), c) == merge_parts(a, merge_parts(b, c))


usages = st.dictionaries(names, st.integers(0, 9), max_size=3) | st.fixed_dictionaries(
    {"details": st.dictionaries(names, st.integers(0, 9), max_size=3)}
)


@given(usages, usages, usages)
def test_adding_usage_is_associative_and_takes_any_order(a, b, c):
    assert add_usage(add_usage(a, b), c) == add_usage(a, add_usage(b, c))
    assert add_usage(a, b) == add_usage(b, a)
    assert replace_usage(replace_usage(a, b), c) == replace_usage(a, replace_usage(b, c))


@given(json_objects, json_objects)
def test_merging_anything_never_raises_and_leaves_both_alone(left, right):
    before = deepcopy((left, right))

    merge_dicts(left, right)
    merge_metadata(left, right)
    add_usage(left, right)

    assert (left, right) == before


@given(json_objects)
def test_nothing_is_neutral(value):
    assert merge_dicts(value, {}) == merge_dicts({}, value) == value
