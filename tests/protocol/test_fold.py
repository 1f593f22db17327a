"""The fold of events into a message."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from foldline.exceptions import LimitExceededError, MalformedStreamError
from foldline.protocol import FoldedMessage, FoldLimits, MessageBuilder, fold
from tests.protocol.cost import cpu_seconds, growth
from tests.strategies import event_streams

START = {"event": "message-start", "role": "ai", "id": "msg_1"}
END = {"event": "message-finish"}


def begin(index=0, **content):
    return {"event": "content-block-start", "index": index, "content": {"type": "text", **content}}


def delta(index=0, **delta):
    return {"event": "content-block-delta", "index": index, "delta": delta}


def text(piece, index=0):
    return delta(index, type="text-delta", text=piece)


def done(index=0, **content):
    return {"event": "content-block-finish", "index": index, "content": content}


def fed(*events, limits=None):
    builder = MessageBuilder(limits)
    for event in events:
        builder.feed(event)
    return builder


CALL = {"type": "tool_call_chunk", "id": "c1", "name": "look", "args": ""}


def args(piece, index=0):
    return delta(index, type="tool-call-delta", args=piece)


def test_T01_two_slices_of_text_are_a_message():
    message = fold([START, begin(), text("Hel"), text("lo"), done(type="text", text="Hello"), END])

    assert message == FoldedMessage(id="msg_1", blocks=[{"type": "text", "text": "Hello"}])


def test_the_role_is_the_one_that_was_said_or_ai():
    assert fold([{**START, "role": "human"}, END]).role == "human"
    assert fold([{**START, "role": None}, END]).role == "ai"


def test_slices_of_a_refusal_are_its_text_even_if_the_finish_leaves_it_out():
    slices = [delta(type="refusal-delta", refusal=piece) for piece in ("I wo", "n't")]

    message = fold([START, begin(type="refusal"), *slices, done(type="refusal"), END])

    assert message.blocks == [{"type": "refusal", "refusal": "I won't"}]


def test_zero_blocks_are_legal():
    assert fold([START, END]).blocks == []


@pytest.mark.parametrize("event", [text("x"), begin(1), done(type="text", text=""), END, START])
def test_T05_an_event_after_the_finish_is_an_error(event):
    builder = fed(START, begin(), text("a"), done(type="text", text="a"), END)

    with pytest.raises(MalformedStreamError, match="after message-finish"):
        builder.feed(event)
    assert builder.result().blocks == [{"type": "text", "text": "a"}]


def test_T05_an_event_after_an_error_is_an_error():
    builder = fed(START, {"event": "error", "message": "overloaded", "code": "529"})

    with pytest.raises(MalformedStreamError, match="after error"):
        builder.feed(begin())
    assert builder.error == {"event": "error", "message": "overloaded", "code": "529"}


def test_T06_a_block_finished_twice_is_an_error():
    with pytest.raises(MalformedStreamError, match="block 0 was finished before"):
        fed(START, begin(), done(type="text", text=""), done(type="text", text=""))


def test_T07_a_delta_for_an_unknown_index_is_an_error():
    with pytest.raises(MalformedStreamError, match="block 3 was never started"):
        fed(START, text("x", index=3))
    with pytest.raises(MalformedStreamError, match="block 0 is finished"):
        fed(START, begin(), done(type="text", text=""), text("x"))


def test_T08_unknown_events_and_deltas_are_ignored_even_after_the_end():
    builder = fed(
        START,
        {"event": "weather", "index": 9},
        begin(),
        delta(0, type="smell-delta", smell="rose"),
        text("a"),
        done(type="text", text="a"),
        END,
        {"event": "applause"},
    )

    assert builder.result().blocks == [{"type": "text", "text": "a"}]


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "message-start",
        {"event": "content-block-start", "index": 0},
        {"event": "content-block-start", "index": True, "content": {"type": "text"}},
        {"event": "content-block-start", "index": -1, "content": {"type": "text"}},
        {"event": "content-block-start", "index": 0, "content": {"type": 3}},
        {"event": "content-block-delta", "index": []},
        {"event": "content-block-delta", "index": 0, "delta": None},
        {"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta"}},
        {"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta", "text": None}},
        {"event": "content-block-delta", "index": 0, "delta": {"type": "block-delta", "fields": 1}},
        {"event": "content-block-delta", "index": 0, "delta": {"type": "data-delta", "data": "A"}},
        {"event": "content-block-finish", "index": 0, "content": []},
        START,
    ],
)
def test_F_T15_broken_events_are_typed_errors_and_what_was_said_stands(event):
    builder = fed(START, begin(), text("a"))

    with pytest.raises(MalformedStreamError):
        builder.feed(event)
    assert builder.blocks() == [{"type": "text", "text": "a"}]


@pytest.mark.parametrize("event", [{}, {"event": 3}, {"event": None}])
def test_an_event_without_a_kind_is_malformed(event):
    with pytest.raises(MalformedStreamError, match="has its kind"):
        fed(START, event)


def test_a_missing_message_start_is_forgiven():
    assert fold([begin(), text("a"), done(type="text", text="a"), END]).blocks[0]["text"] == "a"


def test_T11_text_of_a_block_left_open_is_in_the_output():
    assert fold([START, begin(), text("lost"), text("?"), END]).blocks == [
        {"type": "text", "text": "lost?"}
    ]


def test_a_call_left_open_at_the_end_is_promoted():
    message = fold([START, begin(**CALL), args('{"a": 1}'), END])

    assert message.blocks == [{"type": "tool_call", "id": "c1", "name": "look", "args": {"a": 1}}]


def test_T13_interleaved_texts_keep_apart():
    builder = fed(START, begin(0), begin(1), text("a", 0), text("x", 1), text("b", 0), text("y", 1))

    assert [block["text"] for block in builder.blocks()] == ["ab", "xy"]


def test_T15_a_finish_that_says_more_wins_and_its_tail_is_told():
    builder = fed(START, begin(), text("Hel"))
    finish = done(type="text", text="Hello")

    builder.feed(finish)
    assert builder.unstreamed_text == {0: "lo"}
    assert builder.blocks() == [{"type": "text", "text": "Hello"}]


def test_T15_a_finish_that_contradicts_wins_and_has_no_tail():
    builder = fed(START, begin(), text("Jello"))
    finish = done(type="text", text="Hello")

    builder.feed(finish)
    assert builder.unstreamed_text == {}
    assert builder.blocks() == [{"type": "text", "text": "Hello"}]


def test_a_finish_that_says_what_its_deltas_said_has_no_tail():
    assert fed(START, begin(), text("Hi"), done(type="text", text="Hi"), END).unstreamed_text == {}


def test_the_builder_says_what_is_open_and_gives_single_blocks():
    builder = fed({**START, "metadata": {"provider": "acme"}})
    assert builder.is_started
    assert not MessageBuilder().is_started

    for event in (begin(0), text("a"), begin(1), done(1, type="text", text="")):
        builder.feed(event)

    assert builder.open_indexes() == [0]
    assert builder.block(0) == {"type": "text", "text": "a"}
    assert builder.block(2) is None
    assert builder.start_metadata == {"provider": "acme"}


def test_a_finish_without_the_text_keeps_what_the_deltas_said():
    assert fed(START, begin(), text("a"), done(type="text")).blocks() == [
        {"type": "text", "text": "a"}
    ]


def test_T16_late_fields_show_before_the_finish():
    builder = fed(
        START,
        begin(type="reasoning"),
        delta(type="reasoning-delta", reasoning="hm"),
        delta(type="block-delta", fields={"type": "reasoning", "extras": {"signature": "s"}}),
    )

    assert builder.blocks() == [
        {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "s"}}
    ]


def test_a_block_delta_may_replace_the_text_itself():
    builder = fed(
        START, begin(), text("a"), delta(type="block-delta", fields={"text": "b"}), text("c")
    )

    assert builder.blocks() == [{"type": "text", "text": "bc"}]


@pytest.mark.parametrize("skeleton", [{}, {"reasoning": ""}])
def test_T18_reasoning_that_is_absent_stays_absent(skeleton):
    builder = fed(START, begin(type="reasoning", id="rs_1", **skeleton))

    assert builder.blocks() == [{"type": "reasoning", "id": "rs_1"}]
    builder.feed(done(type="reasoning", id="rs_1"))
    assert builder.blocks() == [{"type": "reasoning", "id": "rs_1"}]


def test_T52_data_deltas_make_the_base64():
    builder = fed(
        START,
        begin(type="audio", mime_type="audio/wav"),
        delta(type="data-delta", data="AA"),
        delta(type="data-delta", data="BB"),
    )

    assert builder.blocks() == [{"type": "audio", "mime_type": "audio/wav", "base64": "AABB"}]


def test_T53_blocks_of_unknown_types_are_kept_and_may_grow():
    builder = fed(
        START,
        begin(type="hologram", depth=3),
        text("a"),
        text("b"),
        begin(1, type="smell"),
        done(1, type="smell", of="rose"),
    )

    assert builder.blocks() == [
        {"type": "hologram", "depth": 3, "text": "ab"},
        {"type": "smell", "of": "rose"},
    ]


def test_text_of_the_start_counts():
    assert fed(START, begin(text="He"), text("y")).blocks() == [{"type": "text", "text": "Hey"}]


def test_E2_an_unfinished_call_is_invalid_in_the_partial_message_and_its_text_is_kept():
    builder = fed(START, begin(), text("I look"), begin(1, **CALL), args('{"a"', 1))

    message = builder.result(partial=True)

    assert message.status == "incomplete"
    assert message.blocks[0] == {"type": "text", "text": "I look"}
    assert message.blocks[1]["type"] == "invalid_tool_call"
    assert message.blocks[1]["args"] == '{"a"'
    assert builder.blocks()[1] == {**CALL, "args": '{"a"'}


def test_E5_a_whole_looking_call_is_still_invalid_when_the_stream_was_cut():
    builder = fed(START, begin(**CALL), args('{"a": 1}'))

    assert builder.blocks(partial=True)[0]["type"] == "invalid_tool_call"


def test_E2_usage_known_only_to_the_producer_can_be_noted():
    builder = fed(START, begin(), text("a"))
    builder.note(usage={"input_tokens": 3}, metadata={"x": 1})

    message = builder.result(partial=True)

    assert (message.usage, message.metadata) == ({"input_tokens": 3}, {"x": 1})
    builder.note(usage={"input_tokens": 9}, metadata={"x": 9})
    assert builder.result(partial=True) == message


def test_E3_a_message_without_its_end_is_no_result():
    with pytest.raises(MalformedStreamError, match="no message-finish came"):
        fed(START, begin()).result()
    with pytest.raises(MalformedStreamError, match="it failed: overloaded"):
        fed(START, {"event": "error", "message": "overloaded"}).result()


def test_T60_T66_T67_usage_kwargs_id_and_metadata_are_in_the_message():
    start = {**START, "metadata": {"provider": "acme", "model": "anvil", "run_id": "r"}}
    usage = {"input_tokens": 1, "input_token_details": {"cache_read": 1}, "odd": 2}
    end = {
        **END,
        "usage": usage,
        "finish_reason": "stop",
        "metadata": {"model_name": "anvil-1-0613", "nested": {"a": [1]}},
        "additional_kwargs": {"refusal": None},
    }

    message = fold([start, end])

    assert message.id == "msg_1"
    assert message.usage == usage
    assert message.finish_reason == "stop"
    assert message.additional_kwargs == {"refusal": None}
    assert message.metadata == {
        "model_provider": "acme",
        "model_name": "anvil-1-0613",
        "run_id": "r",
        "nested": {"a": [1]},
    }


def test_T62_mutating_an_event_or_a_snapshot_harms_nobody():
    start = begin(extras={"a": [1]})
    late_delta = delta(type="block-delta", fields={"annotations": [{"type": "citation"}]})
    end = {
        **END,
        "usage": {"input_tokens": 1},
        "metadata": {"m": []},
        "additional_kwargs": {"k": []},
    }
    finish = done(1, type="non_standard", value={"v": [1]})
    builder = fed(
        {**START, "metadata": {"provider": "p"}},
        start,
        late_delta,
        begin(1, type="non_standard"),
        finish,
        end,
    )

    start["content"]["extras"]["a"].append(2)
    late_delta["delta"]["fields"]["annotations"].clear()
    finish["content"]["value"]["v"].append(2)
    end["usage"]["input_tokens"] = 9
    end["metadata"]["m"].append(1)
    first = builder.result()
    first.blocks[0]["extras"]["a"].append(3)
    first.blocks[1]["value"]["v"].append(3)
    first.metadata["m"].append(3)
    first.usage["input_tokens"] = 3

    second_result = builder.result()
    assert second_result.blocks == [
        {"type": "text", "extras": {"a": [1]}, "annotations": [{"type": "citation"}]},
        {"type": "non_standard", "value": {"v": [1]}},
    ]
    assert (second_result.usage, second_result.metadata["m"]) == ({"input_tokens": 1}, [])


def test_a_chunk_in_a_finish_is_promoted_all_the_same():
    builder = fed(START, begin(**CALL), args("{}"), done(**{**CALL, "args": "{}"}))

    assert builder.blocks()[0]["type"] == "tool_call"


def test_halves_of_a_character_in_two_deltas_are_one_character():
    builder = fed(START, begin(), text("a\ud83d"))
    assert builder.blocks()[0]["text"] == "a"

    builder.feed(text("\ude00"))
    assert builder.blocks()[0]["text"] == "a\U0001f600"


@pytest.mark.parametrize(
    ("limits", "events", "error_text"),
    [
        (FoldLimits(blocks=2), [begin(0), begin(1), begin(2)], "more than 2 blocks"),
        (FoldLimits(tool_args=5), [begin(**CALL), args("12345"), args("6")], "longer than 5"),
        (FoldLimits(message=9), [begin(), text("12345"), text("67890")], "longer than 9"),
        (FoldLimits(message=9), [begin(), done(type="text", text="1234567890")], "longer than 9"),
        (
            FoldLimits(tool_args=5),
            [begin(type="tool_call"), done(type="tool_call", args={"a": "12345"})],
            "longer than 5",
        ),
        (FoldLimits(message=9), [begin(value={"a": ["1234567890"]})], "longer than 9"),
        (
            FoldLimits(message=9),
            [begin(), delta(type="block-delta", fields={"a": "1234567890"})],
            "longer than 9",
        ),
    ],
)
def test_E8_limits_hold(limits, events, error_text):
    with pytest.raises(LimitExceededError, match=error_text):
        fed(START, *events, limits=limits)


def test_E8_what_fits_a_limit_exactly_is_taken():
    limits = FoldLimits(blocks=2, tool_args=5, message=9)
    builder = fed(START, begin(0), text("1234"), text("56789"), begin(1), limits=limits)
    assert builder.blocks(partial=True)[0]["text"] == "123456789"
    call_builder = fed(
        START, begin(**CALL), args("123"), args("45"), limits=FoldLimits(tool_args=5)
    )
    assert call_builder.block(0, partial=True)["args"] == "12345"


@pytest.mark.parametrize("before", [[START], [begin()]], ids=["a start", "a block"])
def test_T05_a_start_after_something_was_said_is_an_error(before):
    with pytest.raises(MalformedStreamError, match="message-start"):
        fed(*before, START)


def test_E8_the_bounds_are_those_of_the_contract():
    assert FoldLimits() == FoldLimits(4096, 4 * 2**20, 128 * 2**20)


def test_a_block_that_contains_itself_is_a_typed_error():
    knot = {}
    knot["knot"] = knot

    with pytest.raises(LimitExceededError):
        fed(START, begin(extras=knot))


@given(event_streams(), st.data())
def test_E2_partial_text_is_a_prefix_of_the_true_text(events, data):
    place = data.draw(st.integers(0, len(events)))

    full_message = fold(events)
    part = fed(*events[:place]).result(partial=True)

    assert len(part.blocks) <= len(full_message.blocks)
    for partial_block, all_ in zip(part.blocks, full_message.blocks, strict=False):
        for field in ("text", "reasoning"):
            assert str(all_.get(field, "")).startswith(partial_block.get(field, ""))


@given(event_streams())
def test_looking_at_the_message_while_it_grows_changes_nothing(events):
    builder = MessageBuilder()
    for event in events:
        builder.feed(event)
        builder.blocks()
        builder.blocks(partial=True)

    assert builder.result() == fold(events)


def feeding_text(count):
    events = [text("token") for _ in range(count)]
    builder = fed(START, begin())

    def feed():
        for event in events:
            builder.feed(event)

    return feed


@pytest.mark.slow
def test_200_000_deltas_cost_per_delta_what_1_000_cost():
    assert growth(feeding_text, 1_000, factor=200) / 200 < 2
    assert (
        min(cpu_seconds(feeding_text(1_000)) for _ in range(5)) / 1_000 < 20e-6
    )  # 0.4 µs without tracing


def feeding_args(slices):
    pieces = ['{"a": "'] + ["x" * 40] * slices + ['"}']
    finish = done(**{**CALL, "type": "tool_call", "args": {"a": "x" * 40 * slices}})
    events = [START, begin(**CALL), *map(args, pieces), finish]
    return lambda: fed(*events)


@pytest.mark.slow
def test_F_U07_four_megabytes_of_arguments_are_linear():
    assert growth(feeding_args, 50_000) < 2.5


BROKEN = {"event": "error", "message": "it broke"}
LOST = text("x", index=7)


@pytest.mark.parametrize(
    ("more", "goes_on", "accepted"),
    [
        ([], True, 4),
        ([done(type="text", text="ab")], True, 5),
        ([done(type="text", text="ab"), END], False, 6),
        ([BROKEN, END], False, 5),
        ([LOST, END], False, 4),
    ],
    ids=["open", "block ended", "finished", "an error is told", "an event has no place"],
)
def test_feeding_all_says_how_many_events_were_taken_and_whether_it_goes_on(
    more, goes_on, accepted
):
    builder = MessageBuilder()

    assert builder.feed_all([START, begin(text=""), text("a"), text("b"), *more]) is goes_on
    assert builder.accepted_count == accepted
    assert (builder.error is not None) is (BROKEN in more)
    assert (builder.fault is not None) is (LOST in more)
