"""Pieces in any order and under any names: the events are well formed, or the error is typed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from foldline.exceptions import FoldlineError
from foldline.protocol import EventWriter, assert_valid_event_stream, check, fold
from foldline.protocol._identity import BlockRegistry, GrowingBlock, kind_of, normal_key

keys = (
    st.none()
    | st.sampled_from([0, 1, "0", "1", "x", 5])
    | st.tuples(st.sampled_from("ab"), st.integers(0, 1))
)
some_ids = st.sampled_from([None, "", "a", "b"])
pieces = (
    st.sampled_from(["", "a", "{", "}", '{"x": 1}', "null", "\ud83d", "\ude00", "é"]) | st.none()
)
extras = st.sampled_from([None, {}, {"s": "1"}, {"n": {"a": [1]}}])


def step(method, *arguments, **keywords):
    return st.tuples(st.just(method), st.tuples(*arguments), st.fixed_dictionaries(keywords))


blocks = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["text", "reasoning", "image", "audio", "non_standard", "hologram", "tool_call_chunk"]
        )
    },
    optional={
        "index": st.sampled_from([None, 0, "0", 1]),
        "id": some_ids,
        "text": st.sampled_from(["", "t"]),
        "reasoning": st.sampled_from(["", "r"]),
        "base64": st.sampled_from(["", "AA"]),
        "value": st.sampled_from([{}, {"a": "b"}]),
        "name": st.sampled_from([None, "", "f", "g"]),
        "args": pieces,
        "extras": extras,
    },
)
steps = st.one_of(
    step("text", pieces, key=keys, id=some_ids),
    step("reasoning", pieces, key=keys, id=some_ids, extras=extras),
    step(
        "tool_call",
        key=keys,
        id=some_ids,
        name=st.sampled_from([None, "", "f", "g"]),
        args=pieces,
        extras=extras,
        server=st.booleans(),
    ),
    step("data", st.sampled_from(["", "AA"]), key=keys, id=some_ids),
    step("block", blocks),
    step("block", blocks.filter(lambda block: "value" in block), is_complete=st.just(True)),
    step("close", keys),
    step("fields", st.just({"extras": {"late": 1}}), keys),
    step("usage", st.just({"input_tokens": 1})),
)


def test_V13_a_block_that_is_no_call_keeps_the_name_it_began_with():
    writer = EventWriter()
    writer.block({"type": "text", "name": "g", "text": "a"})
    writer.block({"type": "text", "name": "f", "text": "b"})
    finish_event = next(
        event for event in writer.finish() if event["event"] == "content-block-finish"
    )
    assert finish_event["content"]["name"] == "g"


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(steps, max_size=12), st.booleans())
def test_F_T15_whatever_is_said_the_events_are_well_formed(script, fails):
    writer = EventWriter()
    events = []
    for method, arguments, keywords in script:
        try:
            events += getattr(writer, method)(*arguments, **keywords)
        except FoldlineError:
            events += writer.error("malformed")
            break
    events += writer.error("cut") if fails else writer.finish()

    problems = [violation for violation in check(events) if violation.rule not in ("V7", "V19")]
    assert problems == []


@given(st.lists(st.tuples(st.sampled_from(["text", "reasoning"]), keys, some_ids), max_size=10))
def test_every_piece_that_is_said_is_in_the_message(script):
    writer = EventWriter()
    events = []
    for number, (kind, key, id) in enumerate(script):
        events += getattr(writer, kind)(f"<{number}>", key=key, id=id)
    events += writer.finish()

    assert_valid_event_stream(events)
    texts = [block.get("text") or block.get("reasoning") for block in fold(events).blocks]
    numbers = [int(number) for text in texts for number in text.strip("<>").split("><")]
    assert sorted(numbers) == list(range(len(script)))


def test_indexes_are_spelled_in_one_way():
    assert normal_key("7") == normal_key(7) == 7
    assert normal_key("07x") == "07x"
    assert normal_key("\u0661") == "\u0661"  # a digit, but nobody's index
    assert normal_key("9" * 5000) == "9" * 5000


def test_all_stages_of_a_call_are_one_kind():
    assert {kind_of(type_) for type_ in ("tool_call_chunk", "tool_call", "invalid_tool_call")} == {
        "tool_call"
    }


def test_nobody_is_meant_before_anybody_spoke():
    registry = BlockRegistry()

    assert registry.at(None, None) == registry.at(0, None) == registry.at(None, "text") == []
    assert registry.find("text", 0, "m") is None


def test_a_block_without_text_has_no_whole_arguments():
    assert not GrowingBlock("tool_call", None, {"type": "tool_call_chunk"}).has_complete_args()
