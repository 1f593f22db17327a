"""Events seen as chunks: the chunks of any stream add up to the message that its fold is."""

from __future__ import annotations

import operator
from functools import reduce

import pytest
from hypothesis import assume, given, settings

from foldline.messages import AIMessage, message_chunk_to_message
from foldline.messages._view import ChunkView
from foldline.protocol.fold import fold
from tests.strategies import event_streams

VERSIONS = ["v0", "v1"]
START = {
    "event": "message-start",
    "role": "ai",
    "id": "m1",
    "metadata": {"provider": "acme", "model": "anvil"},
}
FINISH = {
    "event": "message-finish",
    "finish_reason": "stop",
    "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    "metadata": {"raw": "x"},
    "additional_kwargs": {"k": 1},
}


def start(index, **content):
    return {"event": "content-block-start", "index": index, "content": content}


def delta(index, **delta):
    return {"event": "content-block-delta", "index": index, "delta": delta}


def finish(index, **content):
    return {"event": "content-block-finish", "index": index, "content": content}


def chunks_of(events, version):
    view = ChunkView(version)
    return [chunk for event in events if (chunk := view.feed(event)) is not None]


def text(index, *pieces, **final):
    yield start(index, type="text", text="")
    for piece in pieces:
        yield delta(index, type="text-delta", text=piece)
    yield finish(index, **{"type": "text", "text": "".join(pieces), **final})


def call(index, *pieces, args=None, **final):
    yield start(index, type="tool_call_chunk", id="c", name="f", args="")
    for piece in pieces:
        yield delta(index, type="tool-call-delta", args=piece)
    yield finish(index, **{"type": "tool_call", "id": "c", "name": "f", "args": args, **final})


STREAMS = {
    "nothing": [],
    "empty text": [*text(0)],
    "text": [*text(0, "He", "llo")],
    "T15 finish extends the deltas": [*text(0, "He", "llo", text="Hello!")],
    "T12 two texts": [*text(0, "a"), *text(1, "b")],
    "text and call": [*text(0, "a"), *call(1, '{"a"', ":1}", args={"a": 1})],
    "call and text": [*call(0, '{"a":1}', args={"a": 1}), *text(1, "b")],
    "call, text and reasoning": [
        *call(0, '{"a":1}', args={"a": 1}),
        *text(1, "b"),
        start(2, type="reasoning"),
        delta(2, type="reasoning-delta", reasoning="hm"),
        finish(2, type="reasoning", reasoning="hm"),
    ],
    "T29 whole call": [
        start(0, type="tool_call", id="c", name="f"),
        finish(0, type="tool_call", id="c", name="f", args={"a": "é"}),
    ],
    "T21 truncated call": [
        *call(0, '{"a', args='{"a', type="invalid_tool_call", error="cut"),
    ],
    "T25 extras on a call": [*call(0, "{}", args={}, extras={"signature": "s"})],
    "T16 late signature after text": [
        start(0, type="text", text=""),
        delta(0, type="text-delta", text="He"),
        start(1, type="reasoning"),
        delta(1, type="reasoning-delta", reasoning="hm"),
        delta(0, type="text-delta", text="llo"),
        delta(1, type="block-delta", fields={"extras": {"signature": "ab"}}),
        delta(1, type="block-delta", fields={"extras": {"signature": "abcd"}}),
        finish(0, type="text", text="Hello", annotations=[{"type": "citation", "url": "u"}]),
        finish(1, type="reasoning", reasoning="hm", extras={"signature": "abcd"}),
    ],
    "T18 hidden reasoning": [
        start(0, type="reasoning", id="r"),
        finish(0, type="reasoning", id="r", extras={"redacted": "zz"}),
        *text(1, "x"),
    ],
    "T42 server tool": [
        start(0, type="server_tool_call_chunk", id="s", name="search"),
        delta(0, type="tool-call-delta", args='{"q":1}'),
        finish(0, type="server_tool_call", id="s", name="search", args={"q": 1}),
        start(1, type="server_tool_result", tool_call_id="s", status="success"),
        finish(1, type="server_tool_result", tool_call_id="s", status="success", output=[1]),
    ],
    "T52 image in slices": [
        *text(0, "see"),
        start(1, type="image", mime_type="image/png"),
        delta(1, type="data-delta", data="AA"),
        delta(1, type="data-delta", data="BB"),
        finish(1, type="image", mime_type="image/png", base64="AABB"),
    ],
    "text with an id": [
        start(0, type="text", text="", id="t"),
        finish(0, type="text", text="a", id="t"),
    ],
    "T11 left open": [start(0, type="text", text=""), delta(0, type="text-delta", text="a")],
    "T08 unknown delta": [
        start(0, type="text", text=""),
        delta(0, type="scent-delta", scent="rose"),
        delta(0, type="text-delta", text="a"),
        finish(0, type="text", text="a"),
    ],
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", STREAMS)
def test_chunks_add_up_to_the_folded_message(name, version):
    events = [START, *STREAMS[name], FINISH]

    total = reduce(operator.add, chunks_of(events, version))

    assert message_chunk_to_message(total) == AIMessage.from_fold(fold(events), version)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=60, deadline=None)
@given(events=event_streams())
def test_chunks_of_any_stream_add_up_to_the_folded_message(version, events):
    # In chunks one id is one call, whatever its index (a provider's indexes may shift).
    ids = [
        event["content"]["id"]
        for event in events
        if event["event"] == "content-block-start" and event["content"].get("id")
    ]
    assume(len(ids) == len(set(ids)))

    total = reduce(operator.add, chunks_of(events, version))

    assert message_chunk_to_message(total) == AIMessage.from_fold(fold(events), version)


def test_plain_text_is_plain_in_v0_and_a_list_in_v1():
    events = [START, *text(0, "He", "llo"), FINISH]

    plain = [chunk.content for chunk in chunks_of(events, "v0")]
    lists = [chunk.content for chunk in chunks_of(events, "v1")]

    assert plain == ["He", "llo", ""]
    assert lists[0] == [{"type": "text", "text": "He", "index": 0}]


def test_every_chunk_has_the_id_and_the_last_one_the_rest():
    *before, last = chunks_of([START, *text(0, "a"), FINISH], "v0")

    assert {chunk.id for chunk in [*before, last]} == {"m1"}
    assert last.chunk_position == "last"
    assert last.finish_reason == "stop"
    assert last.usage_metadata == FINISH["usage"]
    assert last.response_metadata == {"model_provider": "acme", "model_name": "anvil", "raw": "x"}
    assert last.additional_kwargs == {"k": 1}


def test_slices_of_a_call_stand_in_tool_call_chunks_and_under_v1_in_content_too():
    events = [START, *call(0, '{"a"', ":1}", args={"a": 1}), FINISH]

    plain, rich = chunks_of(events, "v0")[1], chunks_of(events, "v1")[1]

    assert plain.tool_call_chunks == rich.tool_call_chunks
    assert plain.tool_call_chunks[0]["args"] == '{"a"'
    assert plain.content == ""
    assert rich.content == [{"type": "tool_call_chunk", "args": '{"a"', "index": 0}]


def test_T41_a_broken_server_call_is_no_call_of_the_client():
    events = [
        START,
        start(0, type="server_tool_call_chunk", id="s", name="search"),
        delta(0, type="tool-call-delta", args="{"),
        finish(
            0,
            type="invalid_tool_call",
            id="s",
            name="search",
            args="{",
            error="cut",
            extras={"server": True},
        ),
        FINISH,
    ]

    message = message_chunk_to_message(reduce(operator.add, chunks_of(events, "v1")))

    assert message.tool_calls == message.invalid_tool_calls == []
    assert message.content[0]["type"] == "invalid_tool_call"


def test_a_delta_for_an_unknown_block_shows_nothing():
    view = ChunkView("v0")

    assert view.feed(delta(7, type="text-delta", text="a")) is None
    assert view.feed({"event": "weather", "rain": True}) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_text_that_began_as_a_string_keeps_its_fields_when_the_content_becomes_a_list(version):
    annotated = {"type": "text", "text": "a", "annotations": []}
    events = [
        START,
        {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}},
        {"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta", "text": "a"}},
        {"event": "content-block-finish", "index": 0, "content": annotated},
        *text(1, "b"),
        FINISH,
    ]

    total = reduce(operator.add, chunks_of(events, version))

    assert message_chunk_to_message(total).content[0] == annotated


@pytest.mark.parametrize("version", VERSIONS)
def test_a_block_of_unknown_type_after_a_call_loses_the_index_of_the_stream(version):
    hologram = {"type": "hologram", "depth": []}
    events = [
        START,
        *text(0, "a"),
        *call(1, '{"a":1}', args={"a": 1}),
        {"event": "content-block-start", "index": 2, "content": hologram},
        {"event": "content-block-finish", "index": 2, "content": hologram},
        FINISH,
    ]

    total = reduce(operator.add, chunks_of(events, version))

    assert hologram in message_chunk_to_message(total).content
