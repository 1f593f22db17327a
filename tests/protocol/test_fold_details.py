"""The fold where a small mistake would show: exact limits, odd events, what is shared with the caller."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from foldline.exceptions import LimitExceededError, MalformedStreamError
from foldline.protocol import FoldLimits, MessageBuilder, fold
from foldline.protocol.folded_message import TOTALS, counts_of
from tests.protocol.test_fold import CALL, END, START, args, begin, delta, done, fed, text


def test_an_event_may_be_any_mapping():
    builder = fed(*(MappingProxyType(event) for event in (START, begin(), text("a"))))

    assert builder.blocks() == [{"type": "text", "text": "a"}]


def test_an_unknown_event_with_a_delta_is_ignored():
    builder = MessageBuilder()
    builder.feed_all([START, begin(), text("a"), {**text("b"), "event": "later-delta"}])

    assert builder.blocks() == [{"type": "text", "text": "a"}]


def test_a_block_delta_does_not_change_the_type():
    change = delta(type="block-delta", fields={"type": "reasoning", "id": "b1"})
    builder = fed(START, begin(), text("a"), change)

    assert builder.blocks() == [{"type": "text", "text": "a", "id": "b1"}]


@pytest.mark.parametrize("index", [True, 1.0, "1", None, -1])
def test_an_index_is_a_number_of_a_block(index):
    for event in (begin(index), text("a", index), done(index, type="text", text="")):
        with pytest.raises(MalformedStreamError, match="index"):
            fed(START, begin(0), begin(1), event)


@pytest.mark.parametrize("last", [False, True])
def test_blocks_are_in_the_order_of_their_indexes(last):
    builder = fed(
        START,
        begin(1),
        done(1, type="text", text="b"),
        begin(0),
        done(0, type="text", text="a"),
        END,
    )

    assert [block["text"] for block in builder.result(last=last).blocks] == ["a", "b"]


def test_a_call_that_was_open_at_the_end_is_a_call_also_in_a_partial_message():
    start = {"event": "content-block-start", "index": 0, "content": CALL}
    builder = fed(START, start, args('{"a": 1}'), END)

    for partial in (False, True):
        assert builder.result(partial=partial).blocks[0]["type"] == "tool_call"


@pytest.mark.parametrize("piece", ["12345", "123456"])
def test_slices_of_arguments_are_counted_one_by_one(piece):
    start = {"event": "content-block-start", "index": 0, "content": CALL}
    builder = MessageBuilder(FoldLimits(tool_args=10))

    is_going_on = builder.feed_all([START, start, args("12345"), args(piece)])

    assert is_going_on is (len(piece) == 5)
    assert isinstance(builder.fault, LimitExceededError) is not is_going_on


def test_slices_of_text_are_counted_one_by_one():
    builder = MessageBuilder(FoldLimits(message=10))

    assert builder.feed_all([START, begin(), text("12345"), text("12345")])
    assert not builder.feed_all([text("6")])
    assert isinstance(builder.fault, LimitExceededError)


def test_a_delta_of_another_kind_is_refused():
    builder = MessageBuilder()
    builder.feed_all([START, begin(), text("a"), delta(type="reasoning-delta", reasoning="b")])

    assert "grows by text-delta" in str(builder.fault)


def test_what_starts_again_keeps_nothing():
    reset = {"event": "message-reset", "attempt": 2}
    message = fold([START, begin(), text("a"), reset, START, begin(), text("b"), END])

    assert message.blocks == [{"type": "text", "text": "b"}]


def test_blocks_that_were_never_streamed_come_after_the_others():
    builder = fed(START, begin(), text("a"))
    builder.note(blocks=[{"type": "text", "text": "b"}, {"type": "text", "text": "c"}])

    assert [block["text"] for block in builder.blocks()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (dict.fromkeys(TOTALS, -1), {}),
        (dict.fromkeys(TOTALS, 10**30), {}),
        (dict.fromkeys(TOTALS, True), {}),
        (dict.fromkeys(TOTALS, 0), dict.fromkeys(TOTALS, 0)),
        ({"input_tokens": 1, "output_tokens": "2", "total_tokens": None}, {"input_tokens": 1}),
        ({"input_tokens": 1.0}, {"input_tokens": 1.0}),
        (
            {
                "input_token_details": {
                    "audio": "5",
                    "cache_read": 2,
                    "other": 2.0,
                    "x": -1,
                    "y": True,
                }
            },
            {"input_token_details": {"cache_read": 2, "other": 2.0}},
        ),
    ],
)
def test_counts_that_are_none_are_dropped(usage, counts):
    assert counts_of(usage) == counts


def test_a_result_that_is_not_the_last_shares_nothing_with_the_builder():
    finish = {
        **END,
        "usage": dict.fromkeys(TOTALS, 1),
        "metadata": {"a": {"b": 1}},
        "additional_kwargs": {"c": {"d": 1}},
    }
    builder = fed(START, begin(), text("a"), finish)
    first = builder.result()
    first.usage["input_tokens"] = 9
    first.metadata["a"]["b"] = 9
    first.additional_kwargs["c"]["d"] = 9

    assert builder.result() == builder.result()
    assert builder.result().usage["input_tokens"] == 1
    assert builder.result().metadata["a"] == {"b": 1}
    assert builder.result().additional_kwargs == {"c": {"d": 1}}
