"""A finished message, replayed as events."""

from __future__ import annotations

import pytest
from hypothesis import given

from foldline.protocol import assert_valid_event_stream, fold, message_to_events, replay
from foldline.protocol.replay import MessageLike, describe
from tests.strategies import StandIn, event_streams, stand_ins


def test_a_message_is_said_with_its_id_model_and_role():
    message = StandIn(
        content_blocks=[{"type": "text", "text": "Hi"}],
        id="msg_1",
        response_metadata={"model_provider": "acme", "model_name": "anvil-1", "logprobs": [1]},
        usage_metadata={"input_tokens": 1},
        finish_reason="stop",
    )

    assert list(message_to_events(message)) == [
        {
            "event": "message-start",
            "role": "ai",
            "id": "msg_1",
            "metadata": {"provider": "acme", "model": "anvil-1"},
        },
        {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}},
        {
            "event": "content-block-delta",
            "index": 0,
            "delta": {"type": "text-delta", "text": "Hi"},
        },
        {"event": "content-block-finish", "index": 0, "content": {"type": "text", "text": "Hi"}},
        {
            "event": "message-finish",
            "usage": {"input_tokens": 1},
            "finish_reason": "stop",
            "metadata": {"model_provider": "acme", "model_name": "anvil-1", "logprobs": [1]},
        },
    ]


@pytest.mark.parametrize(
    ("type", "role"),
    [
        ("ai", "ai"),
        ("AIMessageChunk", "ai"),
        ("human", "human"),
        ("system", "system"),
        ("tool", "tool"),
        ("function", "tool"),
        ("chat", "human"),
    ],
)
def test_every_message_has_its_role(type, role):
    assert next(message_to_events(StandIn(type=type)))["role"] == role


def test_a_chat_message_speaks_in_the_role_it_names():
    message = StandIn(type="chat")
    message.role = "assistant"

    assert next(message_to_events(message))["role"] == "ai"


def test_T100_a_tool_message_keeps_its_call_id_and_its_role():
    message = StandIn(
        type="tool",
        content_blocks=[{"type": "text", "text": "42"}],
        tool_call_id="c1",
        status="error",
        name="look",
    )

    result = fold(message_to_events(message))

    assert result.role == "tool"
    assert result.fields == {"tool_call_id": "c1", "status": "error", "name": "look"}
    assert result.metadata == {}
    assert result.status == "complete"


def test_a_chunk_is_promoted_on_the_way():
    chunk = {"type": "tool_call_chunk", "id": "c", "name": "f", "args": '{"a": 1}'}

    result = fold(message_to_events(StandIn(content_blocks=[chunk])))

    assert result.blocks == [{"type": "tool_call", "id": "c", "name": "f", "args": {"a": 1}}]


def test_two_calls_of_one_id_in_an_old_message_are_replayed_as_they_are():
    call = {"type": "tool_call", "id": "c", "name": "f", "args": {}}

    assert fold(message_to_events(StandIn(content_blocks=[call, call]))).blocks == [call, call]


def test_replaying_leaves_the_message_alone():
    block = {"type": "non_standard", "value": {"a": [1]}}
    message = StandIn(content_blocks=[block], response_metadata={"m": [1]})

    for event in message_to_events(message):
        event.get("content", {}).get("value", {}).clear()
        event.get("metadata", {}).clear()

    assert message == StandIn(
        content_blocks=[{"type": "non_standard", "value": {"a": [1]}}], response_metadata={"m": [1]}
    )


def test_a_stand_in_is_like_a_message():
    assert isinstance(StandIn(), MessageLike)


@given(stand_ins)
def test_T66_the_fold_of_a_replay_is_the_message(message):
    result = fold(message_to_events(message))

    assert result.blocks == message.content_blocks
    assert result.id == message.id
    assert result.metadata == message.response_metadata
    assert result.usage == (message.usage_metadata or None)
    assert result.finish_reason == message.finish_reason
    assert result.additional_kwargs == message.additional_kwargs
    assert result.status == message.status
    assert result == describe(message)


@given(stand_ins)
def test_a_replay_is_a_valid_stream_of_its_message(message):
    assert_valid_event_stream(message_to_events(message), message)


@given(event_streams())
def test_folding_and_replaying_come_to_rest(events):
    result = fold(events)

    assert fold(replay(result)) == result
