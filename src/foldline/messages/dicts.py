"""Convert dicts of `message_to_dict` to messages, and chunks to messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from foldline.exceptions import UsageError
from foldline.messages._calls import final_call, parse_calls
from foldline.messages._kinds import CHUNK_TO_MESSAGE, MESSAGE_CLASSES, MESSAGE_TO_CHUNK
from foldline.messages._runnable_function import runnable_function
from foldline.messages.ai_chunk import AIMessageChunk
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage, BaseMessageChunk
from foldline.messages.content import KNOWN_BLOCK_TYPES
from foldline.messages.modifier import RemoveMessage
from foldline.protocol.blocks import ContentBlock
from foldline.protocol.tool_call_parser import is_growing_call
from foldline.utils.json import mend_value

__all__ = [
    "message_chunk_to_message",
    "messages_from_dict",
]

CHUNK_FIELDS = ("type", "tool_call_chunks", "chunk_position")
FINAL_CALLS = frozenset({"tool_call", "invalid_tool_call"})
"""Blocks that the sum of a whole stream has finished already, without their index."""


def message_from_dict(message: object) -> BaseMessage:
    """Return the message of `{"type": ..., "data": ...}`."""
    if not isinstance(message, Mapping) or "type" not in message:
        raise UsageError(f"a message dict needs 'type' and 'data': {message!r:.200}")
    cls = MESSAGE_CLASSES.get(message["type"]) if isinstance(message["type"], str) else None
    if cls is None:
        types = ", ".join(sorted(MESSAGE_CLASSES))
        raise UsageError(f"no message of the type {message['type']!r}; there are: {types}")
    data = message.get("data")
    if not isinstance(data, Mapping):
        raise UsageError(f"the 'data' of a message dict is a dict, not {type(data).__name__}")
    if cls is RemoveMessage and "id" not in data:
        raise UsageError("a remove message needs 'id': the id of the message to remove")
    return cls(**{str(name): value for name, value in data.items()})


@runnable_function
def messages_from_dict(messages: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """Return messages from the dicts of `messages_to_dict`."""
    return [message_from_dict(message) for message in messages]


def finished_blocks(message: BaseMessage) -> list[ContentBlock]:
    """Return the content as standard blocks; calls are complete even in a chunk that is not marked as the last."""
    if isinstance(message, AIMessageChunk):
        return message_chunk_to_message(message).content_blocks
    return message.content_blocks


def message_chunk_to_message(chunk: BaseMessage) -> BaseMessage:
    """Return a chunk, or a sum of chunks, as a message; a message is returned unchanged.

    The sum is considered complete: tool calls with truncated arguments become invalid calls.
    """
    if not isinstance(chunk, BaseMessageChunk):
        if not isinstance(chunk, BaseMessage):
            raise UsageError(
                f"this is a {type(chunk).__name__} and not a message: wrap it in HumanMessage(...) or AIMessage(...)"
            )
        return chunk
    cls = next(CHUNK_TO_MESSAGE[kind] for kind in type(chunk).__mro__ if kind in CHUNK_TO_MESSAGE)
    fields = {name: value for name, value in dict(chunk).items() if name not in CHUNK_FIELDS}
    if isinstance(chunk, AIMessageChunk):
        fields |= _message_fields(chunk)
        if cls is AIMessage and not chunk.model_extra:
            return _trusted_message(fields)
    return cls(**fields)


def message_to_chunk(message: BaseMessage) -> BaseMessageChunk:
    """Return a message as a chunk; a chunk is returned unchanged."""
    if isinstance(message, BaseMessageChunk):
        return message
    for kind in type(message).__mro__:
        if kind in MESSAGE_TO_CHUNK:
            fields = {name: value for name, value in dict(message).items() if name != "type"}
            return MESSAGE_TO_CHUNK[kind](**fields)
    raise UsageError(f"a {type(message).__name__} has no chunk class")


def _message_fields(chunk: AIMessageChunk) -> dict[str, Any]:
    fields: dict[str, Any] = {"content": _message_content(chunk.content)}
    if chunk.tool_call_chunks:
        calls, invalid = parse_calls(chunk.tool_call_chunks)
        fields |= {"tool_calls": calls, "invalid_tool_calls": invalid}
    return fields


def _trusted_message(fields: dict[str, Any]) -> AIMessage:
    values = AIMessage._defaults() | fields
    return AIMessage.model_construct(**values)


def _message_content(content: str | list[Any]) -> object:
    if isinstance(content, str):
        return mend_value(content)
    indexes = [
        item.get("index")
        for item in content
        if isinstance(item, dict) and not ("index" not in item and item.get("type") in FINAL_CALLS)
    ]
    is_numbered = bool(indexes) and all(type(index) is int for index in indexes)
    if is_numbered and len(indexes) == len(content):
        content = sorted(content, key=lambda item: cast("int", item["index"]))
    return [_message_item(item, is_numbered=is_numbered) for item in content]


def _message_item(item: object, *, is_numbered: bool) -> object:
    """Return an item without streaming details: no `index`, finished calls, text as blocks among indexed blocks."""
    if isinstance(item, str):
        return {"type": "text", "text": mend_value(item)} if is_numbered else mend_value(item)
    block = cast("dict[str, Any]", mend_value(item))
    if is_growing_call(block):
        block = final_call(block)
    if is_numbered or block.get("type") in KNOWN_BLOCK_TYPES:
        block.pop("index", None)
    return block
