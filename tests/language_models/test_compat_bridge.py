"""Chunks and messages as events: `chunks_to_events`, `message_to_events`, and their async side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from foldline import protocol
from foldline.language_models import _compat_bridge, achunks_to_events, chunks_to_events
from foldline.language_models.chat_model_stream import (
    AsyncChatModelStream,
    ChatModelStream,
    dispatch_event,
)
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from foldline.outputs import ChatGenerationChunk
from foldline.protocol import (
    amessage_to_events,
    assert_valid_event_stream,
    fold,
    message_to_events,
)
from tests.language_models.reading import FINISH, Chunked, answer, start, text_events, tool_slice

IMAGE = {"type": "image", "base64": "QUJD", "mime_type": "image/png"}
STREAMS: dict[str, list[AIMessageChunk]] = {
    "text": [AIMessageChunk("Hel", id="m"), AIMessageChunk("lo")],
    "chat completions": [
        tool_slice("", id="c1", name="f", index=0),
        tool_slice('{"a":', index=0),
        tool_slice(" 1}", index=0),
        tool_slice("{}", id="c2", name="g", index=1),
    ],
    "string indexes": [
        AIMessageChunk([{"type": "reasoning", "reasoning": "hm", "index": "lc_rs_1"}]),
        AIMessageChunk([{"type": "text", "text": "a", "index": "lc_txt_1"}]),
        AIMessageChunk([{"type": "text", "text": "b", "index": "lc_txt_1"}]),
    ],
    "one index each": [
        AIMessageChunk([{"type": "reasoning", "reasoning": "hm", "index": 0}]),
        AIMessageChunk([{"type": "reasoning", "extras": {"signature": "s"}, "index": 0}]),
        AIMessageChunk([{"type": "text", "text": "a", "index": 1}]),
    ],
    "a picture": [AIMessageChunk([IMAGE])],
    "an invalid call": [tool_slice('{"a":', id="c", name="f", index=0)],
    "usage": [
        AIMessageChunk("a"),
        AIMessageChunk(
            "", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
        ),
    ],
    "nothing": [],
}


def chunked(name: str) -> Iterator[ChatGenerationChunk]:
    for chunk in STREAMS[name]:
        yield ChatGenerationChunk(message=chunk)


async def async_chunks(name: str) -> AsyncIterator[ChatGenerationChunk]:
    for chunk in chunked(name):
        await asyncio.sleep(0)
        yield chunk


async def collect(items: Any) -> list[Any]:
    return [item async for item in items]


@pytest.mark.parametrize("name", list(STREAMS))
def test_chunks_make_the_events_that_a_model_of_them_gives(name):
    events = list(chunks_to_events(chunked(name), message_id="m"))

    assert asyncio.run(collect(achunks_to_events(async_chunks(name), message_id="m"))) == events
    if name == "nothing":
        assert events == []
        return
    assert_valid_event_stream(events)
    assert events[0]["id"] == "m"
    expected = list(Chunked(items=STREAMS[name]).stream_v2("x"))
    assert events[1:] == expected[1:]


def test_message_chunks_are_taken_too_and_keep_their_id():
    events = list(chunks_to_events([AIMessageChunk("Hel", id="mine"), AIMessageChunk("lo")]))

    assert (events[0]["id"], fold(events).blocks[0]["text"]) == ("mine", "Hello")


def test_the_usage_of_running_totals_is_the_last():
    counts = [{"input_tokens": 1, "output_tokens": n, "total_tokens": 1 + n} for n in (1, 2)]
    chunks = [AIMessageChunk("a", usage_metadata=usage) for usage in counts]

    assert fold(chunks_to_events(chunks)).usage["output_tokens"] == 3
    assert fold(chunks_to_events(chunks, usage_mode="last")).usage["output_tokens"] == 2


def test_leaving_the_events_closes_the_chunks():
    closings: list[str] = []

    def chunks() -> Iterator[ChatGenerationChunk]:
        try:
            yield from chunked("text")
        finally:
            closings.append("sync")

    async def achunks() -> AsyncIterator[ChatGenerationChunk]:
        try:
            async for chunk in async_chunks("text"):
                yield chunk
        finally:
            closings.append("async")

    async def body() -> None:
        events = achunks_to_events(achunks())
        await anext(events)
        await events.aclose()

    events = chunks_to_events(chunks())
    next(events)
    events.close()
    asyncio.run(body())

    assert closings == ["sync", "async"]


# -- why a message ended


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        (None, {}),
        ("stop", {"finish_reason": "stop"}),
        ("length", {"response_metadata": {"finish_reason": "length"}}),
    ],
)
def test_a_reason_is_never_inferred_from_calls(call, reason, fields):
    model = Chunked(items=[*STREAMS["chat completions"], AIMessageChunk("", **fields)])

    assert answer(call, model).finish_reason == reason
    assert call.invoke(model, "x").finish_reason == reason
    pieces = call.stream(model, "x")
    assert sum(pieces[1:], pieces[0]).finish_reason == reason


# -- messages


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("Hello", id="m", response_metadata={"a": 1}, additional_kwargs={"b": 2}),
        AIMessage("", tool_calls=[{"id": "c", "name": "f", "args": {"a": 1}}]),
        HumanMessage("Hi"),
        ToolMessage("3", tool_call_id="c"),
    ],
)
def test_messages_are_said_alike_for_who_awaits(message):
    events = list(message_to_events(message))

    assert asyncio.run(collect(amessage_to_events(message))) == events
    assert_valid_event_stream(events, message)


def test_a_message_may_be_said_under_another_id():
    message = AIMessage("Hello", id="m")

    assert next(message_to_events(message, message_id="other"))["id"] == "other"
    events = asyncio.run(collect(amessage_to_events(message, message_id="other")))
    assert events[0]["id"] == "other"
    assert message.id == "m"


# -- names


def test_the_names_are_where_langchain_has_them():
    assert _compat_bridge.chunks_to_events is chunks_to_events
    assert _compat_bridge.achunks_to_events is achunks_to_events
    assert _compat_bridge.message_to_events is message_to_events
    assert _compat_bridge.amessage_to_events is amessage_to_events
    assert set(_compat_bridge.__all__) <= set(vars(_compat_bridge))


@pytest.mark.parametrize(
    ("name", "published_name"),
    [
        ("MessagesData", "Event"),
        ("MessageStartData", "MessageStart"),
        ("ContentBlockStartData", "ContentBlockStart"),
        ("ContentBlockDeltaData", "ContentBlockDeltaEvent"),
        ("ContentBlockFinishData", "ContentBlockFinish"),
        ("MessageFinishData", "MessageFinish"),
        ("MessageErrorData", "StreamError"),
        ("MessageRole", "Role"),
        ("ToolCallBlock", "ToolCall"),
        ("ToolCallChunkBlock", "ToolCallChunk"),
        ("InvalidToolCallBlock", "InvalidToolCall"),
        ("ServerToolCallBlock", "ServerToolCall"),
        ("ServerToolCallChunkBlock", "ServerToolCallChunk"),
        ("ServerToolResultBlock", "ServerToolResult"),
    ],
)
def test_the_protocols_types_have_their_published_names(name, published_name):
    assert getattr(protocol, name) is getattr(protocol, published_name)
    assert name in protocol.__all__


def test_dispatch_event_hands_an_event_to_a_stream():
    stream, other = ChatModelStream(), AsyncChatModelStream()

    for event in [start(), *text_events("a"), FINISH]:
        dispatch_event(event, stream)
        dispatch_event(other, event)

    assert stream.output.text == "a"
    assert other.output_message.text == "a"
