"""Events that the writer makes of tool calls, which every vendor sends in its own way."""

from __future__ import annotations

import json

import pytest

from foldline.exceptions import MalformedStreamError
from foldline.protocol import EventWriter, assert_valid_event_stream, fold
from foldline.protocol.tool_call_parser import is_server_call
from tests.protocol.cost import cpu_seconds, growth
from tests.strategies import say


def part(args=None, *, id=None, name=None, **more):
    return {"type": "tool_call_chunk", "id": id, "name": name, "args": args, **more}


def call(args, *, id="c1", name="look", **more):
    return {"type": "tool_call", "id": id, "name": name, "args": args, **more}


def blocks_of(*parts):
    events = say(list(parts))
    assert_valid_event_stream(events)
    return fold(events).blocks


@pytest.mark.parametrize("args", ["[1]", "null", '"x"', "3"])
def test_T20_arguments_that_are_no_object_are_invalid_and_the_stream_completes(args):
    (block,) = blocks_of(part(args, id="c1", name="look", index=0))

    assert (block["type"], block["args"]) == ("invalid_tool_call", args)


@pytest.mark.parametrize("args", ['{"a": ', "{'a': 1}", '{"a": 1}}'])
def test_T21_malformed_arguments_are_invalid_and_kept(args):
    (block,) = blocks_of(part(args, id="c1", name="look", index=0))

    assert (block["type"], block["args"], block["id"]) == ("invalid_tool_call", args, "c1")


@pytest.mark.parametrize("nothing", ["", None])
def test_T22_a_continuation_with_empty_id_and_name_keeps_the_first(nothing):
    assert blocks_of(
        part('{"a"', id="c1", name="look", index=0),
        part(": 1}", id=nothing, name=nothing, index=0),
    ) == [call({"a": 1})]


def test_T23_null_ids_on_parallel_calls_stay_null():
    blocks = blocks_of(part("{}", name="a", index=0), part("{}", name="b", index=1, id=""))

    assert [block["id"] for block in blocks] == [None, None]


def test_T24_an_empty_name_is_invalid():
    (block,) = blocks_of(part("{}", id="c1", name="", index=0))

    assert block["type"] == "invalid_tool_call"


def test_T25_extras_on_a_later_part_are_on_the_call():
    assert blocks_of(
        part("{", id="c1", name="look", index=0),
        part("}", index=0, extras={"thought_signature": "s"}),
    ) == [call({}, extras={"thought_signature": "s"})]


def test_T26_a_name_in_pieces_is_joined_while_no_arguments_were_seen():
    assert blocks_of(
        part(id="c1", name="get_", index=0),
        part("", name="weather", index=0),
        part("{}", name="_x", index=0),
    ) == [call({}, name="get_weather_x")]
    assert blocks_of(
        part('{"a"', id="c1", name="look", index=0), part(": 1}", name="up", index=0)
    ) == [call({"a": 1})]


@pytest.mark.parametrize("index", [{"index": 0}, {}])
def test_F_U06_a_name_repeated_with_every_slice_is_one_name(index):
    slices = ["", '{"a"', ": {}", "}", ""]

    assert blocks_of(*(part(piece, id="c1", name="look", **index) for piece in slices)) == [
        call({"a": {}})
    ]
    assert blocks_of(*(part(piece, name="look", **index) for piece in slices)) == [
        call({"a": {}}, id=None)
    ]


@pytest.mark.parametrize("args", ["", None])
def test_T27_no_arguments_are_an_empty_object(args):
    assert blocks_of(part(args, id="c1", name="look", index=0)) == [call({})]


def test_T28_an_opener_with_null_arguments():
    assert blocks_of(part(None, id="c1", name="look", index=0), part("{}", index=0)) == [call({})]


@pytest.mark.parametrize(
    "slices", [["null", '{"a": 1}'], ['{"a": 1}', "null"], ['{"a": 1}', "null", "null"]]
)
def test_a_vendors_null_before_or_after_the_arguments_is_left_out(slices):
    opener = part(id="c1", name="look", index=0)

    assert blocks_of(opener, *(part(piece, index=0) for piece in slices)) == [call({"a": 1})]


def test_a_null_inside_the_arguments_stays():
    pieces = ['{"a": ', "null", "}"]

    assert blocks_of(part(id="c1", name="look"), *map(part, pieces)) == [call({"a": None})]


def test_T29_an_opener_with_complete_arguments_sends_them_as_a_delta():
    writer = EventWriter()
    events = writer.tool_call(key=0, id="c1", name="look", args={"a": 1}) + writer.close(0)

    assert events[1]["content"] == {
        "type": "tool_call_chunk",
        "id": "c1",
        "name": "look",
        "args": "",
    }
    assert events[2]["delta"] == {"type": "tool-call-delta", "args": '{"a": 1}'}
    assert events[3]["content"] == call({"a": 1})
    assert_valid_event_stream(events + writer.finish())


def test_T30_calls_interleaved_by_index():
    assert blocks_of(
        part("{", id="a", name="f", index=0),
        part("{", id="b", name="g", index=1),
        part('"x": 1}', index=0),
        part('"y": 2}', index=1),
    ) == [call({"x": 1}, id="a", name="f"), call({"y": 2}, id="b", name="g")]


@pytest.mark.parametrize("index", [{"index": 0}, {}])
def test_T31_T32_F_U05_different_ids_are_two_calls(index):
    assert blocks_of(
        part("{", id="a", name="f", **index),
        part("}", **index),
        part("{", id="b", name="f", **index),
        part("}", **index),
    ) == [call({}, id="a", name="f"), call({}, id="b", name="f")]


def test_T32_calls_without_index_interleaved_by_id():
    assert blocks_of(
        part("{", id="a", name="f"),
        part("{", id="b", name="g"),
        part("}", id="a"),
        part("}", id="b"),
    ) == [call({}, id="a", name="f"), call({}, id="b", name="g")]


def test_T33_no_index_and_the_same_id_is_one_call():
    assert blocks_of(part("{", id="c1", name="look"), part("}", id="c1")) == [call({})]


def test_whole_calls_without_index_and_id_are_told_apart_by_their_names():
    assert blocks_of(
        part('{"x": 1}', name="f"), part('{"x": 2}', name="f"), part("{}", name="g")
    ) == [
        call({"x": 1}, id=None, name="f"),
        call({"x": 2}, id=None, name="f"),
        call({}, id=None, name="g"),
    ]


def test_T34_index_0_and_the_text_0_are_one():
    assert blocks_of(part("{", id="c1", name="look", index=0), part("}", index="0")) == [call({})]


def test_T35_two_fragments_of_one_index_in_one_chunk():
    assert blocks_of(part("{", id="c1", name="look", index=0), part("}", index=0)) == [call({})]


def test_T36_text_and_a_partial_call_in_one_chunk():
    assert blocks_of(
        {"type": "text", "text": "I look."},
        part("{", id="c1", name="look", index=0),
        {"type": "text", "text": ""},
        part("}", index=0),
    ) == [{"type": "text", "text": "I look."}, call({})]


def test_T37_the_last_part_may_carry_arguments():
    writer = EventWriter()
    events = writer.tool_call(key=0, id="c1", name="look", args="{")
    events += writer.tool_call(key=0, args="}") + writer.finish(
        "tool_calls", usage={"input_tokens": 1}
    )

    assert fold(events).blocks == [call({})]


def test_T38_text_at_0_and_a_call_at_0_are_two_blocks():
    assert blocks_of(
        {"type": "text", "text": "a", "index": 0},
        part("{", id="c1", name="look", index=0),
        {"type": "text", "text": "b", "index": 0},
        part("}", index=0),
    ) == [{"type": "text", "text": "ab"}, call({})]


def test_T39_blank_text_then_a_call_at_the_same_index():
    assert blocks_of(
        {"type": "text", "text": "", "index": 0}, part("{}", id="c1", name="look", index=0)
    ) == [call({})]


def test_T40_a_whole_call_is_started_and_finished_at_once():
    writer = EventWriter()
    events = writer.block(call({"a": 1}))

    assert [event["event"] for event in events] == [
        "message-start",
        "content-block-start",
        "content-block-finish",
    ]
    assert events[1]["content"] == {"type": "tool_call", "id": "c1", "name": "look"}
    assert events[2]["content"] == call({"a": 1})


def test_T41_bad_arguments_of_a_server_call_are_not_the_clients():
    (block,) = blocks_of(
        {"type": "server_tool_call_chunk", "id": "s", "name": "search", "args": "{", "index": 0}
    )

    assert block["type"] == "invalid_tool_call"
    assert is_server_call(block)


def test_T42_a_server_call_and_its_result():
    result = {"type": "server_tool_result", "tool_call_id": "s", "status": "success", "output": "x"}

    blocks = blocks_of(
        {"type": "server_tool_call_chunk", "id": "s", "name": "search", "args": "", "index": 0},
        {"type": "server_tool_call_chunk", "args": '{"q": 1}', "index": 0},
        {**result, "index": 1},
    )

    assert blocks[0] == {"type": "server_tool_call", "id": "s", "name": "search", "args": {"q": 1}}
    assert blocks[1] == result


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_T43_nan_is_refused(number):
    (block,) = blocks_of(part(f'{{"a": {number}}}', id="c1", name="look"))
    assert block["type"] == "invalid_tool_call"

    (block,) = blocks_of(call({"a": float(number)}))
    assert block["type"] == "invalid_tool_call"


def saying_args(size, sink=None):
    pieces = ['{"a":"', *(["0123456789"] * (size // 10)), '"}']
    events = [] if sink is None else sink

    def speak():
        writer = EventWriter()
        events.extend(writer.tool_call(key=0, id="c1", name="look"))
        for piece in pieces:
            events.extend(writer.tool_call(key=0, args=piece))
        events.extend(writer.finish())

    return speak


@pytest.mark.slow
def test_T44_200_kilobytes_of_arguments_in_small_slices_are_linear():
    half, full = [], []
    saying_args(100_000, half)()
    saying_args(200_000, full)()

    assert len(json.dumps(full)) / len(json.dumps(half)) < 2.1
    assert len(fold(full).blocks[0]["args"]["a"]) == 200_000
    assert growth(saying_args, 100_000) < 2.5


def test_T48_reasoning_then_a_call_without_index():
    blocks = blocks_of({"type": "reasoning", "reasoning": "hm"}, part("{}", id="c1", name="look"))

    assert blocks == [{"type": "reasoning", "reasoning": "hm"}, call({})]


def test_a_null_index_on_a_continuation_continues_the_call():
    assert blocks_of(part("{", id="c1", name="look", index=0), part("}", index=None)) == [call({})]


def test_arguments_go_on_after_text_in_between():
    assert blocks_of(
        part("{", id="c1", name="look"), {"type": "text", "text": "…"}, part("}", id="c1")
    ) == [call({}), {"type": "text", "text": "…"}]


def test_a_call_that_is_whole_is_finished_as_soon_as_something_else_speaks():
    writer = EventWriter()
    writer.tool_call(id="c1", name="look", args="{}")

    assert writer.text("x")[0] == {
        "event": "content-block-finish",
        "index": 0,
        "content": call({}),
    }
    assert writer.tool_call(id="c1", name="look", args="") == []


@pytest.mark.parametrize(
    "second", [call({"a": 2}), part('{"a": 2}', id="c1", name="look", index=4)]
)
def test_F_U09_two_calls_of_one_id_are_an_error(second):
    writer = EventWriter()
    writer.block(call({"a": 1}))

    with pytest.raises(MalformedStreamError, match="share the id 'c1'"):
        writer.block(second)


def test_repeated_ids_can_be_allowed():
    writer = EventWriter(allow_repeated_ids=True)
    events = writer.tool_call(key=0, id="c1", name="look", args="{}") + writer.close(0)
    events += writer.tool_call(key=0, id="c1", name="look", args="{}") + writer.finish()

    assert fold(events).blocks == [call({}), call({})]


def test_a_call_told_twice_is_one_call():
    assert blocks_of(call({"a": 1}), call({"a": 1})) == [call({"a": 1})]


@pytest.mark.parametrize("args", ["", '{"a": 1}'])
def test_a_call_that_was_announced_and_comes_whole_is_one_call(args):
    assert blocks_of(part(args, id="c1", name="look", index=0), call({"a": 1})) == [call({"a": 1})]


def test_F_U09_a_call_that_comes_whole_and_differs_from_its_slices_is_an_error():
    writer = EventWriter()
    writer.tool_call(key=0, id="c1", name="look", args='{"a"')

    with pytest.raises(MalformedStreamError, match="sent twice"):
        writer.block(call({"a": 1}))


def test_a_call_with_arguments_that_are_no_object_is_invalid_from_its_start():
    assert blocks_of(call([1]))[0]["type"] == "invalid_tool_call"
    assert blocks_of(call('{"a": 1}')) == [call({"a": 1})]


def test_names_repeated_over_arguments_that_never_close_stay_cheap():
    writer = EventWriter()

    def speak():
        for _ in range(2_000):
            writer.tool_call(name="look", args='{"a": {}')
        writer.finish()

    assert cpu_seconds(speak) < 1
