"""The checklist of the streaming spec through models: tools, order, media (T20-T57), mostly from v1 chunks."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from foldline.exceptions import MalformedStreamError
from foldline.messages import AIMessage, AIMessageChunk
from foldline.protocol import message_to_events
from tests.language_models.reading import (
    FINISH,
    Chunked,
    Native,
    answer,
    block_finish,
    block_start,
    delta,
    output_blocks,
    read,
    start,
    tool_slice,
)

# -- tools


def calls_of(call: Any, *chunks: Any) -> AIMessage:
    return answer(call, Chunked(items=list(chunks)))


@pytest.mark.parametrize(
    "args", ["[1]", "null", '"x"', "3", '{"a": ', "{'a': 1}", '{"a": NaN}', '{"a": Infinity}']
)
def test_T20_T21_T43_arguments_that_are_no_strict_object_are_invalid_and_the_stream_completes(
    call, args
):
    message = calls_of(call, tool_slice(args, id="c", name="f", index=0))

    assert message.tool_calls == []
    (invalid_call,) = message.invalid_tool_calls
    assert (invalid_call["name"], invalid_call["args"]) == ("f", args)
    assert invalid_call["error"]


def test_T22_empty_id_and_name_on_continuations_keep_the_first(call):
    message = calls_of(
        call,
        tool_slice('{"a"', id="c", name="f", index=0),
        tool_slice(": 1}", id="", name="", index=0),
    )

    (tool_call,) = message.tool_calls
    assert (tool_call["id"], tool_call["name"], tool_call["args"]) == ("c", "f", {"a": 1})


def test_T23_null_ids_on_parallel_calls_never_become_one_empty_id(call):
    message = calls_of(
        call, tool_slice("{}", name="f", index=0), tool_slice("{}", name="g", index=1)
    )

    assert [call["name"] for call in message.tool_calls] == ["f", "g"]
    assert all(call["id"] != "" for call in message.tool_calls)


def test_T24_a_call_without_a_name_is_invalid(call):
    message = calls_of(call, tool_slice("{}", id="c", name="", index=0))

    assert not message.tool_calls
    assert len(message.invalid_tool_calls) == 1


def test_T25_extras_on_a_later_delta_are_on_the_call(call):
    message = calls_of(
        call,
        tool_slice("{}", id="c", name="f", index=0),
        tool_slice("", index=0, extras={"thought": "x"}),
    )

    assert message.content[0]["extras"] == {"thought": "x"}


def test_T26_a_name_in_pieces_is_joined_only_before_arguments(call):
    pieces = [tool_slice(id="c", name="get_", index=0), tool_slice(name="time", index=0)]
    late_pieces = tool_slice("{}", index=0), tool_slice("", name="time", index=0)

    assert calls_of(call, *pieces, *late_pieces).tool_calls[0]["name"] == "get_time"


@pytest.mark.parametrize("opener", [None, ""])
def test_T27_T28_no_arguments_are_an_empty_object(call, opener):
    assert calls_of(call, tool_slice(opener, id="c", name="f", index=0)).tool_calls[0]["args"] == {}


def test_T29_an_opener_may_carry_all_arguments(call):
    message = calls_of(call, tool_slice('{"a": 1}', id="c", name="f", index=0))

    assert message.tool_calls[0]["args"] == {"a": 1}


def test_T30_calls_interleaved_by_index(call):
    message = calls_of(
        call,
        tool_slice('{"a"', id="c0", name="f", index=0),
        tool_slice('{"b"', id="c1", name="g", index=1),
        tool_slice(": 1}", index=0),
        tool_slice(": 2}", index=1),
    )

    assert [call["args"] for call in message.tool_calls] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("index", [0, None])
def test_T31_T32_different_ids_are_two_calls(call, index):
    message = calls_of(
        call,
        tool_slice('{"a": 1}', id="c0", name="f", index=index),
        tool_slice('{"a": 2}', id="c1", name="f", index=index),
    )

    assert [call["id"] for call in message.tool_calls] == ["c0", "c1"]


def test_T33_one_id_without_index_is_one_call(call):
    message = calls_of(call, tool_slice('{"a"', id="c", name="f"), tool_slice(": 1}", id="c"))

    assert [call["args"] for call in message.tool_calls] == [{"a": 1}]


def test_T34_index_0_and_index_text_0_are_one_call(call):
    message = calls_of(
        call, tool_slice('{"a"', id="c", name="f", index=0), tool_slice(": 1}", index="0")
    )

    assert [call["args"] for call in message.tool_calls] == [{"a": 1}]


def test_T35_two_fragments_of_one_index_in_one_chunk(call):
    first = tool_slice('{"a"', id="c", name="f", index=0)
    chunk = AIMessageChunk(
        content="",
        tool_call_chunks=[*first.tool_call_chunks, *tool_slice(": 1}", index=0).tool_call_chunks],
    )

    assert [tool_call["args"] for tool_call in calls_of(call, chunk).tool_calls] == [{"a": 1}]


def test_T36_text_and_part_of_a_call_in_one_chunk(call):
    first = tool_slice('{"a"', id="c", name="f", index=0)
    mixed_chunk = AIMessageChunk(content="Let me see", tool_call_chunks=first.tool_call_chunks)

    message = calls_of(call, mixed_chunk, tool_slice(": 1}", index=0))

    assert message.text == "Let me see"
    assert [call["args"] for call in message.tool_calls] == [{"a": 1}]


def test_T37_arguments_on_the_last_chunk_are_kept(call):
    last = tool_slice(": 1}", index=0)
    last.chunk_position = "last"
    last.response_metadata = {"finish_reason": "tool_calls"}

    message = calls_of(call, tool_slice('{"a"', id="c", name="f", index=0), last)

    assert [call["args"] for call in message.tool_calls] == [{"a": 1}]
    assert message.finish_reason == "tool_use"


@pytest.mark.parametrize("text", ["hi", " "])
def test_T38_T39_text_and_tool_at_one_index_are_two_blocks(call, text):
    text_blocks = [{"type": "text", "text": text, "index": 0}]

    blocks = output_blocks(
        call, Chunked(items=[text_blocks, tool_slice("{}", id="c", name="f", index=0)])
    )

    assert [block["type"] for block in blocks] == ["text", "tool_call"]


def test_T40_whole_calls_are_seen_when_iterating(call):
    chunk = AIMessageChunk(
        content=[{"type": "tool_call", "id": "c", "name": "f", "args": {"a": 1}}]
    )

    reading = read(call, Chunked(items=[chunk]), "slices", "tool_calls")

    assert [value["name"] for value in reading.values[0]] == ["f"]
    assert [tool_call["args"] for tool_call in reading.value] == [{"a": 1}]


def test_T41_T42_server_calls_are_content_and_no_calls_of_the_program(call):
    bad = {"type": "server_tool_call_chunk", "id": "s0", "name": "search", "args": "{", "index": 0}
    good = {
        "type": "server_tool_call",
        "id": "s1",
        "name": "search",
        "args": {"q": "x"},
        "index": 1,
    }
    result = {
        "type": "server_tool_result",
        "tool_call_id": "s1",
        "status": "success",
        "output": "y",
        "index": 2,
    }

    message = answer(call, Chunked(items=[[bad], [good], [result]]))

    assert not message.tool_calls
    assert not message.invalid_tool_calls
    assert [block["type"] for block in message.content][1:] == [
        "server_tool_call",
        "server_tool_result",
    ]


@pytest.mark.timing
@pytest.mark.slow
def test_T44_much_argument_text_in_small_slices_is_linear_in_time_and_bytes(call):
    def cost(size: int) -> tuple[float, int]:
        args = json.dumps({"a": "x" * size})
        slices = [tool_slice(args[at : at + 10], index=0) for at in range(0, len(args), 10)]
        model = Chunked(items=[tool_slice("", id="c", name="f", index=0), *slices])
        start = time.process_time()
        events = read(call, model, "events").value
        return time.process_time() - start, sum(len(json.dumps(event)) for event in events)

    cost(1_000)
    (small, small_bytes), (large, large_bytes) = cost(50_000), cost(200_000)

    assert large_bytes / small_bytes < 4.5
    assert large / small < 10  # four times as much; a quadratic one takes sixteen times as long


# -- order


def test_T45_indexes_that_are_names_are_counted_from_0(call):
    chunks = [
        [{"type": "text", "text": "a", "index": "lc_txt_1"}],
        [{"type": "reasoning", "reasoning": "b", "index": "lc_rs_2"}],
    ]

    events = read(call, Chunked(items=chunks), "events").value

    starts = [event for event in events if event["event"] == "content-block-start"]
    assert [start["index"] for start in starts] == [0, 1]


def test_T46_text_tool_text_are_three_blocks_in_order(call):
    model = Chunked(items=["a", tool_slice("{}", id="c", name="f", index=0), "b"])

    assert [block["type"] for block in output_blocks(call, model)] == ["text", "tool_call", "text"]


def test_T47_reasoning_and_text_in_one_chunk_then_text_is_one_text_block(call):
    content = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "a"}]

    blocks = output_blocks(call, Chunked(items=[content, [{"type": "text", "text": "b"}]]))

    assert [(block["type"], block.get("text")) for block in blocks] == [
        ("reasoning", None),
        ("text", "ab"),
    ]


def test_T48_reasoning_then_tool_without_index(call):
    model = Chunked(
        items=[[{"type": "reasoning", "reasoning": "hm"}], tool_slice("{}", id="c", name="f")]
    )

    assert [block["type"] for block in output_blocks(call, model)] == ["reasoning", "tool_call"]


def test_T49_a_first_index_of_5_is_0_on_the_wire(call):
    events = read(
        call, Chunked(items=[[{"type": "text", "text": "a", "index": 5}]]), "events"
    ).value

    assert {event["index"] for event in events if "index" in event} == {0}


# -- media


def test_T50_base64_is_sent_once(call):
    image = {"type": "image", "base64": "QUJD" * 100, "mime_type": "image/png"}

    events = read(call, Chunked(items=[[image]]), "events").value

    assert json.dumps(events).count(image["base64"]) == 1


def test_T51_base64_in_two_chunks_is_joined(call):
    def part(data: str) -> list[Any]:
        return [{"type": "audio", "base64": data, "mime_type": "audio/wav", "index": 0}]

    assert (
        output_blocks(call, Chunked(items=[part("QUJD"), part("REVG")]))[0]["base64"] == "QUJDREVG"
    )


def test_T52_data_deltas_add_up(call):
    events = [
        start(),
        block_start(0, type="audio", mime_type="audio/wav"),
        delta(0, type="data-delta", data="QUJD"),
        delta(0, type="data-delta", data="REVG"),
        block_finish(0, type="audio", mime_type="audio/wav", base64="QUJDREVG"),
        FINISH,
    ]

    assert output_blocks(call, Native(items=events))[0]["base64"] == "QUJDREVG"


def test_T53_plain_documents_and_unknown_types_are_kept(call):
    document = {"type": "text-plain", "text": "long", "mime_type": "text/plain", "title": "t"}
    strange = {"type": "hologram", "beams": [1, 2]}

    blocks = output_blocks(call, Chunked(items=[[document], [strange]]))

    assert blocks[0]["text"] == "long"
    assert json.dumps(strange["beams"]) in json.dumps(blocks[1])


def test_T54_a_non_standard_block_in_two_chunks_is_merged(call):
    def part(**value: Any) -> list[Any]:
        return [{"type": "non_standard", "value": value, "index": 0}]

    assert output_blocks(call, Chunked(items=[part(a=1), part(b=2)])) == [
        {"type": "non_standard", "value": {"a": 1, "b": 2}}
    ]


def test_T55_redacted_thinking_round_trips(call):
    redacted = {"type": "redacted_thinking", "data": "secret"}
    chunk = AIMessageChunk(content=[redacted], response_metadata={"model_provider": "anthropic"})

    message = answer(call, Chunked(items=[chunk]))

    assert "secret" in json.dumps(message.content)
    assert answer(call, Native(items=list(message_to_events(message)))).content == message.content


def test_T56_normalising_twice_is_normalising_once(call):
    blocks = [{"type": "reasoning", "reasoning": "r"}, {"type": "text", "text": "a"}]

    once = answer(call, Chunked(items=[blocks]))
    twice = answer(call, Chunked(items=[list(once.content)]))

    assert once.content == twice.content


def test_T57_a_malformed_block_surfaces(call):
    model = Chunked(
        items=["a", AIMessageChunk(content=[{"type": "reasoning", "reasoning": "r", "id": 7}])]
    )

    reading = read(call, model, "output")

    assert isinstance(reading.error, MalformedStreamError)
