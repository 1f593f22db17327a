"""V11 to V13: what the start and the deltas of a block say against its finish, and values compared as JSON."""

from __future__ import annotations

import pytest

from foldline.protocol import check, fold
from tests.strategies import StandIn


def rules(events, message=None):
    return [violation.rule for violation in check(events, message)]


def lone_block(start, *deltas, finish):
    """A message of one block."""
    return [
        {"event": "message-start", "role": "ai", "id": "m"},
        {"event": "content-block-start", "index": 0, "content": start},
        *({"event": "content-block-delta", "index": 0, "delta": delta} for delta in deltas),
        {"event": "content-block-finish", "index": 0, "content": finish},
        {"event": "message-finish"},
    ]


def call_events(*deltas, args, **fields):
    call = {"id": "c", "name": "f"}
    start = {"type": "tool_call_chunk", **call, "args": ""}
    return lone_block(start, *deltas, finish={"type": "tool_call", **call, "args": args, **fields})


def args_slice(args):
    return {"type": "tool-call-delta", "args": args}


def set_fields(**fields):
    return {"type": "block-delta", "fields": fields}


@pytest.mark.parametrize("kind", ["text", "reasoning"])
@pytest.mark.parametrize(
    ("final", "expected"), [("abcd", []), ("cd", ["V11"]), ("ab", ["V11"]), ("", ["V11"])]
)
def test_V11_the_text_of_the_start_counts(kind, final, expected):
    delta = {"type": f"{kind}-delta", kind: "cd"}
    events = lone_block({"type": kind, kind: "ab"}, delta, finish={"type": kind, kind: final})

    assert rules(events) == expected
    if not expected:
        assert fold(events).blocks[0][kind] == final


def test_V11_a_start_without_deltas_makes_the_finish():
    assert (
        rules(lone_block({"type": "text", "text": "ab"}, finish={"type": "text", "text": "ab"}))
        == []
    )


def test_V11_a_block_delta_that_sets_the_text_replaces_what_was_before_it():
    deltas = [
        {"type": "text-delta", "text": "wrong"},
        set_fields(type="text", text="ri"),
        {"type": "text-delta", "text": "ght"},
    ]
    events = lone_block(
        {"type": "text", "text": ""}, *deltas, finish={"type": "text", "text": "right"}
    )

    assert rules(events) == []
    assert fold(events).blocks[0]["text"] == "right"


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ('{"a": true}', {"a": 1}),
        ('{"a": 1}', {"a": True}),
        ('{"a": false}', {"a": 0}),
        ('{"a": [{"b": true}]}', {"a": [{"b": 1}]}),
        ('{"a": null}', {}),
        ('{"a": [1]}', {"a": [1, 2]}),
    ],
)
def test_V12_arguments_are_compared_as_json(arguments, args):
    assert rules(call_events(args_slice(arguments), args=args)) == ["V12"]


@pytest.mark.parametrize(
    ("arguments", "args"), [('{"a": true}', {"a": True}), ('{"a": 1.0}', {"a": 1}), ("", {})]
)
def test_V12_the_same_json_is_the_same(arguments, args):
    assert rules(call_events(args_slice(arguments), args=args)) == []


@pytest.mark.parametrize(
    "deltas",
    [
        [args_slice("lost"), set_fields(type="tool_call_chunk", args='{"a":'), args_slice(" 1}")],
        [set_fields(type="tool_call_chunk", args='{"a": 1}')],
        [set_fields(type="tool_call_chunk", args="x"), set_fields(args=""), args_slice('{"a":1}')],
    ],
)
def test_V12_a_block_delta_that_sets_the_arguments_replaces_the_slices_before_it(deltas):
    events = call_events(*deltas, args={"a": 1})

    assert rules(events) == []
    assert fold(events).blocks[0]["args"] == {"a": 1}


def test_V12_slices_before_a_block_delta_are_not_the_arguments():
    snapshot = set_fields(type="tool_call_chunk", args='{"a": 2}')

    assert rules(call_events(args_slice('{"a": 1}'), snapshot, args={"a": 1})) == ["V12"]


@pytest.mark.parametrize(
    ("start", "finish"),
    [
        (
            {"type": "tool_call_chunk", "name": "f", "args": ""},
            {"type": "tool_call", "id": "late", "name": "f", "args": {}},
        ),
        ({"type": "reasoning"}, {"type": "reasoning", "id": "late"}),
        ({"type": "text", "text": ""}, {"type": "text", "text": "", "id": "late"}),
    ],
)
def test_V13_an_id_first_said_at_the_finish_is_allowed(start, finish):
    events = lone_block(start, finish=finish)

    assert rules(events) == []
    assert fold(events).blocks[0]["id"] == "late"


@pytest.mark.parametrize(
    ("start", "finish"),
    [
        ({"id": "c"}, {"id": "c", "name": "late"}),  # a name is known when the call starts
        ({"id": "c", "name": "f"}, {"id": "other", "name": "f"}),
        ({"id": "c", "name": "f"}, {"id": None, "name": "f"}),
        ({"id": "c", "name": "f"}, {"id": "c", "name": "g"}),
    ],
)
def test_V13_an_id_or_name_that_is_other_at_the_finish(start, finish):
    events = lone_block(
        {"type": "tool_call_chunk", "args": "", **start},
        finish={"type": "tool_call", "args": {}, **finish},
    )

    assert "V13" in rules(events)


def message(events):
    return StandIn(content_blocks=fold(events).blocks, id="m")


def test_V20_a_message_is_compared_as_json():
    events = call_events(args_slice('{"a": true}'), args={"a": True})
    other = call_events(args_slice('{"a": 1}'), args={"a": 1})

    assert rules(events, message(events)) == []
    assert rules(events, message(other)) == ["V20"] * 2
