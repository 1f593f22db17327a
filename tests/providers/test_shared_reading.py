"""Bytes of recorded streams, cut anywhere: the same events, or a typed error; and nonsense of every kind."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from foldline._sse import SSEDecoder
from foldline.exceptions import (
    FoldlineError,
    LimitExceededError,
    MalformedStreamError,
    ModelError,
    StreamTruncatedError,
)
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder
from foldline.providers._reading import StreamReading
from foldline.transports import SizeLimits
from tests.providers import recordings
from tests.providers.openai.test_decode import CHAT, RESPONSES, decoder

STREAMS = [*CHAT, *RESPONSES]


def reading(name: str) -> StreamReading:
    def malformed(message: str, **facts: Any) -> MalformedStreamError:
        return MalformedStreamError(message, **facts)

    return StreamReading(
        decoder(name), lambda data: data == "[DONE]", json.loads, malformed, SizeLimits()
    )


def read(name: str, pieces: list[bytes]) -> list[Event]:
    stream, events = reading(name), []
    for piece in pieces:
        events += stream.feed(piece)
    return events + list(stream.end())


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(STREAMS), st.lists(st.floats(0, 1), max_size=12))
def test_F_S01_any_cutting_into_pieces_gives_the_same_events(
    name: str, places: list[float]
) -> None:
    data = recordings.stream_bytes("openai", name)
    edges = sorted({0, len(data), *(int(place * len(data)) for place in places)})
    pieces = [data[start:stop] for start, stop in pairwise(edges)]

    assert read(name, pieces) == read(name, [data])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["chat-text-and-parallel-tool-calls", "responses-reasoning-hidden"]
)
def test_F_T03_a_stream_that_ends_at_any_byte_is_complete_or_truncated(name: str) -> None:
    data = recordings.stream_bytes("openai", name)
    full = recordings.message(read(name, [data]))
    outcomes = {"complete": 0, "cut": 0}
    for at in range(1, len(data)):
        stream, builder = reading(name), MessageBuilder()
        try:
            for event in [*stream.feed(data[:at]), *stream.end()]:
                builder.feed(event)
        except StreamTruncatedError:
            outcomes["cut"] += 1
        else:
            outcomes["complete"] += 1
            result = builder.result()
            assert [block["type"] for block in result.blocks] == [
                b["type"] for b in full.content_blocks
            ], at
    assert outcomes["cut"] > outcomes["complete"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "type",
                    "index",
                    "choices",
                    "delta",
                    "content",
                    "tool_calls",
                    "function",
                    "arguments",
                    "name",
                    "usage",
                    "error",
                    "item",
                    "response",
                    "output",
                    "item_id",
                    "output_index",
                    "summary",
                    "annotations",
                    "finish_reason",
                    "message",
                    "audio",
                    "data",
                    "text",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["chat-", "responses-"]),
    st.lists(JSON, min_size=1, max_size=4),
    st.sampled_from(
        [
            "message",
            "error",
            "response.output_item.added",
            "response.output_text.delta",
            "response.completed",
        ]
    ),
)
def test_F_S12_nonsense_is_ignored_or_a_typed_error(
    name: str, values: list[Any], kind: str
) -> None:
    stream = reading(name)
    try:
        for value in values:
            if isinstance(value, dict) and kind != "message":
                value = {"type": kind, **value}
            for _ in stream.feed(f"event: {kind}\ndata: {json.dumps(value)}\n\n".encode()):
                pass
        list(stream.end())
    except FoldlineError as error:
        assert isinstance(error, ModelError)  # noqa: PT017


WORD = b'data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "word"}}]}\n\n'


def reading_with(**limits: int) -> StreamReading:
    stream = reading(CHAT[0])
    stream._sse = SSEDecoder(**limits)
    return stream


def test_a_fault_is_known_with_the_events_before_it():
    stream = reading_with(max_line=200)

    events = stream.feed(WORD + b"data: " + b"x" * 200 + b"\n\n")

    assert events[0]["event"] == "message-start"
    assert isinstance(stream.fault, LimitExceededError)


def test_chunks_after_the_end_are_no_events():
    stream = reading(CHAT[0])
    stream.feed(WORD + b"data: [DONE]\n\n")

    assert stream.is_over
    assert stream.feed(WORD) == []
    assert stream.end() == []


def test_a_fault_of_the_payload_is_kept_before_one_of_the_lines():
    stream = reading_with(max_line=200)

    stream.feed(WORD + b"data: 1\n\n" + b"data: " + b"x" * 200 + b"\n\n")

    assert isinstance(stream.fault, MalformedStreamError)


def test_what_is_no_event_stream_is_refused():
    stream = reading(CHAT[0])
    stream.feed(b"<html>\n")

    with pytest.raises(MalformedStreamError, match="no event stream"):
        stream.end()
