"""Events that the writer makes of answers: text, reasoning, media, metadata, the end. Calls: test_writer_calls."""

from __future__ import annotations

import datetime
import json

import pytest
from hypothesis import given, strategies as st

from foldline.exceptions import LimitExceededError, MalformedStreamError
from foldline.protocol import EventWriter, MessageBuilder, assert_valid_event_stream, check, fold
from tests.protocol.cost import cpu_seconds, growth
from tests.strategies import partial_parts, planned_blocks, say


def write(*parts, **finish):
    """The message that partial blocks make, after its events have passed the grammar."""
    events = say(list(parts), **finish)
    assert_valid_event_stream(events)
    return fold(events)


def blocks_of(*parts):
    return write(*parts).blocks


def kinds(events):
    return [event["event"] for event in events]


def text(piece, **more):
    return {"type": "text", "text": piece, **more}


def test_T01_two_slices_of_text_make_the_full_lifecycle():
    writer = EventWriter(id="msg_1")

    first, second, end = writer.text("Hel"), writer.text("lo"), writer.finish("stop")

    assert kinds(first) == ["message-start", "content-block-start", "content-block-delta"]
    assert kinds(second) == ["content-block-delta"]
    assert kinds(end) == ["content-block-finish", "message-finish"]
    assert end[0]["content"] == text("Hello")
    assert_valid_event_stream(first + second + end)


def test_T03_an_id_that_comes_before_the_first_text_is_its_id():
    writer = EventWriter()
    assert writer.text("", id="x") == []
    start = writer.text("hello")[1]
    assert start["content"] == {"type": "text", "id": "x", "text": ""}


def test_T03_only_empty_text_is_a_start_and_a_finish():
    events = say([text(""), text("", id="m"), text("", index=3)])

    assert kinds(events) == ["message-start", "message-finish"]


def test_nothing_is_on_the_wire_before_something_is_said():
    writer = EventWriter()

    assert writer.text("") == writer.reasoning("") == writer.tool_call() == []
    assert not writer.is_started
    assert kinds(writer.text("a"))[0] == "message-start"


def test_T12_two_text_blocks_by_index():
    assert blocks_of(text("a", index=0), text("b", index=1)) == [text("a"), text("b")]


def test_T13_interleaved_texts():
    events = say(
        [text(piece, index=number) for number, piece in [(0, "a"), (1, "x"), (0, "b"), (1, "y")]]
    )

    assert_valid_event_stream(events)
    texts = {0: "", 1: ""}
    for event in events:
        if event["event"] == "content-block-delta":
            texts[event["index"]] += event["delta"]["text"]
    assert [block["text"] for block in fold(events).blocks] == ["ab", "xy"] == list(texts.values())


def test_T14_citations_in_separate_parts_are_both_there_and_seen_live():
    first, second = {"type": "citation", "url": "a"}, {"type": "citation", "url": "b"}
    writer = EventWriter()
    builder = MessageBuilder()
    events = [
        *writer.text("x", key=0),
        *writer.text(None, key=0, annotations=[first]),
        *writer.fields({"annotations": [second]}, key=0),
    ]
    for event in events:
        builder.feed(event)

    assert builder.blocks()[0]["annotations"] == [first, second]
    assert fold(events + writer.finish()).blocks == [text("x", annotations=[first, second])]


def test_T16_a_late_signature_reaches_the_block():
    assert blocks_of(
        {"type": "reasoning", "reasoning": "hm", "index": 0},
        {"type": "reasoning", "extras": {"signature": "s"}, "index": 0},
        text("so", index=1),
    ) == [{"type": "reasoning", "reasoning": "hm", "extras": {"signature": "s"}}, text("so")]


def test_T17_a_signature_in_two_parts_is_merged():
    parts = [
        {"type": "reasoning", "extras": {"signature": piece}, "index": 0} for piece in ("ab", "cd")
    ]

    assert blocks_of(*parts) == [{"type": "reasoning", "extras": {"signature": "abcd"}}]


def test_T18_reasoning_without_text_has_no_reasoning_key_and_keeps_its_id():
    assert blocks_of({"type": "reasoning", "id": "rs_1"}) == [{"type": "reasoning", "id": "rs_1"}]


@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_T19_a_late_id_is_on_the_block(index):
    assert blocks_of(text("a", **index), text("b", id="m_1", **index)) == [text("ab", id="m_1")]


def test_an_id_that_comes_before_the_text_is_kept():
    assert blocks_of(text("", id="m_1", index=0), text("a", index=0)) == [text("a", id="m_1")]


def test_T45_T49_indexes_on_the_wire_count_from_0_whatever_the_provider_says():
    events = say([text("a", index="lc_txt_9"), text("b", index=5), text("c", index="lc_txt_9")])

    assert [event["index"] for event in events if "index" in event] == [0, 0, 1, 1, 0, 0, 1]
    assert [block["text"] for block in fold(events).blocks] == ["ac", "b"]


def test_T46_text_tool_text_are_three_blocks_in_order():
    call = {"type": "tool_call_chunk", "id": "c", "name": "f", "args": "{}"}

    for index in ({}, {"index": 0}):
        blocks = blocks_of(text("a"), {**call, **index}, text("b"))
        assert [block["type"] for block in blocks] == ["text", "tool_call", "text"]


def test_a_refusal_grows_by_its_own_delta_like_text():
    writer = EventWriter(id="msg_1")

    events = writer.refusal("I wo") + writer.refusal("n't.") + writer.finish("refusal")

    assert kinds(events[1:3]) == ["content-block-start", "content-block-delta"]
    assert events[1]["content"] == {"type": "refusal", "refusal": ""}
    assert events[3]["delta"] == {"type": "refusal-delta", "refusal": "n't."}
    assert_valid_event_stream(events)
    assert fold(events).blocks == [{"type": "refusal", "refusal": "I won't."}]


def test_a_refusal_without_a_word_is_a_block_with_empty_text():
    writer = EventWriter()
    events = writer.refusal(extras={"category": "cyber"}) + writer.finish("refusal")
    assert_valid_event_stream(events)
    assert fold(events).blocks == [
        {"type": "refusal", "refusal": "", "extras": {"category": "cyber"}}
    ]

    bare = EventWriter()
    assert fold(bare.refusal() + bare.finish()).blocks == [{"type": "refusal", "refusal": ""}]


def test_slices_of_a_refusal_with_an_index_are_one_block():
    slices = [{"type": "refusal", "refusal": piece, "index": 1} for piece in ("No", ".")]

    assert blocks_of(text("Hm", index=0), *slices) == [
        text("Hm"),
        {"type": "refusal", "refusal": "No."},
    ]


def test_T47_reasoning_and_text_then_text_is_one_text_block():
    blocks = blocks_of({"type": "reasoning", "reasoning": "r"}, text("a"), text("b"))

    assert blocks == [{"type": "reasoning", "reasoning": "r"}, text("ab")]


def test_same_id_with_a_new_index_is_one_block():
    assert blocks_of(text("a", id="m", index=0), text("b", id="m", index=2)) == [text("ab", id="m")]


def test_same_index_with_another_id_is_another_block():
    blocks = blocks_of(text("a", id="m", index=0), text("b", id="n", index=0), text("c", index=0))

    assert blocks == [text("a", id="m"), text("bc", id="n")]


def test_a_tuple_is_a_decoders_own_identity_and_ids_play_no_part():
    writer = EventWriter()
    events = [
        *writer.reasoning("a", key=("rs_1", 0), id="rs_1"),
        *writer.reasoning("b", key=("rs_1", 1), id="rs_1"),
        *writer.reasoning("c", key=("rs_1", 0)),
        *writer.finish(),
    ]

    assert_valid_event_stream(events)
    assert [block["reasoning"] for block in fold(events).blocks] == ["ac", "b"]


def test_a_block_is_finished_at_its_true_boundary():
    writer = EventWriter()
    writer.text("a", key=0)

    assert writer.close(0)[0]["content"] == text("a")
    assert writer.close(0) == []
    assert kinds(writer.text("b", key=0)) == ["content-block-start", "content-block-delta"]


def test_a_block_that_never_said_anything_closes_without_a_word():
    writer = EventWriter()
    writer.text("", key=0, id="m")

    assert writer.close(0) == []
    assert kinds(writer.finish()) == ["message-start", "message-finish"]


@pytest.mark.parametrize("target", [{"key": 0}, {"kind": "text"}, {"key": "0", "kind": "text"}, {}])
def test_a_block_can_be_meant_by_key_kind_both_or_neither(target):
    writer = EventWriter()
    writer.text("a", key=0)

    events = writer.fields({"id": "m"}, **target)

    assert events[0]["delta"] == {"type": "block-delta", "fields": {"type": "text", "id": "m"}}
    assert kinds(writer.close(**target)) == ["content-block-finish"]
    with pytest.raises(MalformedStreamError, match="no open"):
        writer.fields({"id": "m"}, **target)


def test_T50_base64_is_sent_once():
    events = say(
        [{"type": "image", "base64": "QUJD", "mime_type": "image/png", "index": 0}, text("x")]
    )

    assert_valid_event_stream(events)
    assert json.dumps(events).count("QUJD") == 1
    assert fold(events).blocks[0] == {"type": "image", "base64": "QUJD", "mime_type": "image/png"}


@pytest.mark.parametrize("name", [{"index": 0}, {"id": "img_1"}])
def test_T51_base64_in_parts_is_concatenated(name):
    parts = [{"type": "image", "base64": piece, **name} for piece in ("AA", "BB", "CC")]

    assert blocks_of(*parts)[0]["base64"] == "AABBCC"


def test_T52_data_can_be_streamed():
    writer = EventWriter()
    events = (
        writer.data("AA", key=0, mime_type="audio/wav") + writer.data("BB", key=0) + writer.finish()
    )

    assert_valid_event_stream(events)
    assert [event["delta"] for event in events if "delta" in event] == [
        {"type": "data-delta", "data": "AA"},
        {"type": "data-delta", "data": "BB"},
    ]
    assert fold(events).blocks == [{"type": "audio", "mime_type": "audio/wav", "base64": "AABB"}]
    with pytest.raises(MalformedStreamError, match="not of 'text'"):
        EventWriter().data("AA", type="text")


def test_two_pictures_without_names_are_two_pictures():
    picture = {"type": "image", "url": "https://example.org/a.png"}

    assert blocks_of(picture, picture) == [picture, picture]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text-plain", "text": "doc", "title": "t", "mime_type": "text/plain"},
        {"type": "hologram", "depth": {"a": [1]}},
        {"type": "non_standard", "value": {"a": 1}},
        {"type": "server_tool_result", "tool_call_id": "s", "status": "success", "output": [1]},
    ],
)
def test_T53_whole_blocks_of_any_type_are_kept_and_show_their_payload_once(block):
    call = {"type": "server_tool_call", "id": "s", "name": "search", "args": {}}
    events = say([call, block])

    assert_valid_event_stream(events)
    assert fold(events).blocks == [call, block]
    assert kinds(events)[3:5] == ["content-block-start", "content-block-finish"]


def test_T54_a_non_standard_block_in_two_parts_is_merged():
    blocks = blocks_of(
        {"type": "non_standard", "value": {"a": 1, "s": "x"}, "index": 0},
        {"type": "non_standard", "value": {"b": 2, "s": "y"}, "index": 0},
    )

    assert blocks == [{"type": "non_standard", "value": {"a": 1, "b": 2, "s": "xy"}}]


def test_T55_redacted_thinking_round_trips():
    redacted_block = {
        "type": "non_standard",
        "value": {"type": "redacted_thinking", "data": "EmwKAhgB"},
    }

    assert blocks_of({**redacted_block, "index": 0}, text("x", index=1)) == [
        redacted_block,
        text("x"),
    ]


@pytest.mark.parametrize(
    "block",
    [
        None,
        "text",
        {},
        {"type": 3},
        {"type": "text", "text": 5},
        {"type": "text", "text": "x", "index": []},
        {"type": "text", "text": "x", "id": 7},
        {"type": "image", "base64": b"AA", "index": 0},
        {"type": "tool_call_chunk", "name": ["f"], "args": "{}"},
        {"type": "tool_call_chunk", "name": "f", "args": 3},
    ],
)
def test_T57_a_malformed_block_surfaces(block):
    with pytest.raises(MalformedStreamError):
        EventWriter().block(block)


def test_a_block_nested_too_deep_is_a_typed_error():
    value = {}
    for _ in range(10_000):
        value = {"a": value}

    with pytest.raises(LimitExceededError):
        EventWriter().block({"type": "non_standard", "value": value})


def test_T58_T59_T61_usage_is_summed_or_replaced_and_unknown_keys_are_kept():
    first = {"input_tokens": 3, "input_token_details": {"cache_read": 1}, "odd": 1}
    second = {"output_tokens": 2, "input_token_details": {"cache_read": 2}, "odd": 2}
    for mode, reads in (("sum", 3), ("last", 2)):
        writer = EventWriter(usage_mode=mode)
        assert writer.usage(first) == writer.usage(None) == []
        finish = writer.finish(usage=second)[-1]

        assert finish["usage"] == {
            "input_tokens": 3,
            "output_tokens": 2,
            "input_token_details": {"cache_read": reads},
            "odd": reads,
        }


def test_no_usage_is_no_usage():
    assert "usage" not in EventWriter().finish()[-1]


def test_E2_usage_and_metadata_so_far_can_be_asked_for():
    writer = EventWriter(usage_mode="last")
    writer.usage({"input_tokens": 3})
    writer.metadata({"request_id": "r"})

    assert writer.usage_so_far == {"input_tokens": 3}
    assert writer.metadata_so_far == {"request_id": "r"}


def test_T62_mutating_events_harms_nobody():
    extras, usage = {"a": [1]}, {"input_tokens": 1, "details": {"x": 1}}
    writer = EventWriter(metadata={"provider": "acme"})
    events = writer.text("a", key=0, extras=extras) + writer.usage(usage)
    extras["a"].append(2)
    usage["details"]["x"] = 9
    for event in events:
        event.get("content", {}).get("extras", {}).clear()
        event.get("metadata", {}).clear()
    late_events = writer.text(None, key=0, annotations=[{"type": "citation"}])
    late_events[0]["delta"]["fields"]["annotations"].clear()

    finish, end = writer.finish()

    assert finish["content"] == text("a", extras={"a": [1]}, annotations=[{"type": "citation"}])
    assert end["usage"] == {"input_tokens": 1, "details": {"x": 1}}


def test_T63_the_last_reason_that_says_something_wins_and_the_raw_one_stays():
    writer = EventWriter()
    writer.metadata({"finish_reason": None, "model_name": "m"})
    writer.metadata({"finish_reason": "tool_calls"})
    writer.metadata({"finish_reason": None, "model_name": "m"})

    end = writer.finish()[-1]

    assert end["finish_reason"] == "tool_use"
    assert end["metadata"] == {"finish_reason": "tool_calls", "model_name": "m"}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("end_turn", "stop"),
        ("MAX_TOKENS", "length"),
        ("refusal", "refusal"),
        ("flurb", "unknown"),
        ("", None),
    ],
)
def test_reasons_are_said_in_our_words(raw, expected):
    assert EventWriter().finish(raw)[-1].get("finish_reason") == expected


def test_a_reason_is_not_inferred_from_calls():
    writer = EventWriter()
    writer.tool_call(id="c", name="f", args="{}")

    assert writer.finish("stop")[-1]["finish_reason"] == "stop"
    assert (
        "finish_reason" not in say([{"type": "tool_call", "id": "c", "name": "f", "args": {}}])[-1]
    )


def test_T64_later_metadata_wins_and_names_are_not_doubled():
    writer = EventWriter()
    writer.metadata({"model_name": "a", "n": 1})
    writer.metadata({"model_name": "b"})

    assert writer.finish()[-1]["metadata"] == {"model_name": "b", "n": 1}


def test_T66_additional_kwargs_grow_and_are_kept():
    writer = EventWriter()
    writer.additional_kwargs({"refusal": "I ", "function_call": {"name": "f", "arguments": "{"}})
    writer.additional_kwargs({"refusal": "won't", "function_call": {"arguments": "}"}})

    assert writer.finish()[-1]["additional_kwargs"] == {
        "refusal": "I won't",
        "function_call": {"name": "f", "arguments": "{}"},
    }


def test_T67_the_providers_id_is_in_the_start():
    assert EventWriter(id="run-1").start(id="msg_9")[0]["id"] == "msg_9"
    assert EventWriter(id="run-1").start()[0]["id"] == "run-1"
    assert fold(EventWriter().finish()).id is None


def test_T68_what_is_not_json_in_metadata_is_made_so():
    values = {"when": datetime.date(2026, 1, 2), "bytes": b"x", "nan": float("nan"), 5: {1, 2}}
    writer = EventWriter(metadata={"deep": {"a": 1}, "provider": "acme", **values})
    events = writer.text("x", extras={"obj": object(), "pair": (1, 2)})
    events += writer.finish(metadata=values, additional_kwargs=values, usage={"input_tokens": 1})

    assert_valid_event_stream(events)
    assert events[0]["metadata"]["provider"] == "acme"
    assert fold(events).metadata["deep"] == {"a": 1}
    assert json.loads(json.dumps(events)) == events


def test_start_metadata_that_comes_late_goes_to_the_end():
    writer = EventWriter()
    writer.text("a")

    assert writer.start(id="late", metadata={"x": 1}) == []
    assert writer.finish()[-1]["metadata"] == {"x": 1}


def test_an_error_ends_the_message_in_place():
    writer = EventWriter()
    events = writer.text("a") + writer.error("overloaded", code="529", retryable=True)

    assert events[-1] == {
        "event": "error",
        "message": "overloaded",
        "code": "529",
        "retryable": True,
    }
    assert check(events) == []
    assert writer.finish() == writer.error("again") == []
    assert kinds(EventWriter().error("early")) == ["message-start", "error"]


def test_nothing_can_be_said_after_the_end():
    writer = EventWriter()
    writer.text("a")
    writer.finish()

    assert writer.is_over
    with pytest.raises(MalformedStreamError, match="the message is over"):
        writer.text("b")


def test_F_S08_a_character_cut_in_half_is_whole_on_the_wire():
    events = say([text("a\ud83d"), text("\ude00b"), text("\ud83d")])

    assert_valid_event_stream(events)
    assert fold(events).blocks == [text("a\U0001f600b\\ud83d")]


@given(planned_blocks(), st.booleans(), st.data())
def test_cutting_what_is_said_anywhere_gives_the_same_message(blocks, indexed, data):
    once = data.draw(partial_parts(blocks, indexed=indexed))
    other_parts = data.draw(partial_parts(blocks, indexed=indexed))

    events = say(once)
    assert_valid_event_stream(events)
    assert fold(events) == fold(say(other_parts))
    assert [block["type"] for block in fold(events).blocks] == [block.kind for block in blocks]


def saying_text(count):
    writer = EventWriter()

    def speak():
        for _ in range(count):
            writer.text("token")
        writer.finish()

    return speak


@pytest.mark.slow
def test_saying_twice_as_much_takes_twice_as_long():
    assert growth(saying_text, 20_000) < 2.5
    assert min(cpu_seconds(saying_text(1_000)) for _ in range(5)) / 1_000 < 10e-6
