"""Runs of messages of one kind -> one message, for providers that want turns to alternate."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from foldline.messages._growth import merge_content, merge_kwargs
from foldline.messages._verbs import runnable_verb
from foldline.messages.ai_chunk import AIMessageChunk
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage, Content
from foldline.messages.chat import ChatMessage
from foldline.messages.convert import Messages, convert_to_messages
from foldline.messages.function import FunctionMessage
from foldline.messages.modifier import RemoveMessage
from foldline.messages.tool import ToolMessage
from foldline.messages.usage import add_request_usage

__all__ = ["merge_message_runs"]

Joined: TypeAlias = dict[str, Any]
Status: TypeAlias = Literal["complete", "incomplete"]


@runnable_verb
def merge_message_runs(messages: Messages, *, chunk_separator: str = "\n") -> list[BaseMessage]:
    """Join neighbours of the same kind; tool messages answer different calls and stay apart."""
    merged: list[BaseMessage] = []
    for message in convert_to_messages(messages):
        if merged and _is_run(merged[-1], message):
            merged[-1] = _joined(merged[-1], message, chunk_separator)
        else:
            merged.append(message.model_copy(deep=False))
    return merged


def _is_run(one: BaseMessage, two: BaseMessage) -> bool:
    if isinstance(two, ToolMessage | RemoveMessage) or type(one) is not type(two):
        return False
    if isinstance(one, ChatMessage) and isinstance(two, ChatMessage):
        return one.role == two.role
    if isinstance(one, FunctionMessage):
        return one.name == two.name
    return True


def _joined(one: BaseMessage, two: BaseMessage, separator: str) -> BaseMessage:
    update: Joined = {
        "content": _content(one.content, two.content, separator),
        "additional_kwargs": merge_kwargs(one.additional_kwargs, two.additional_kwargs),
    }
    if isinstance(one, AIMessageChunk) and isinstance(two, AIMessageChunk):
        update["tool_call_chunks"] = [*one.tool_call_chunks, *two.tool_call_chunks]
    if isinstance(one, AIMessage) and isinstance(two, AIMessage):
        update |= _joined_answers(one, two)
    return one.model_copy(update=update)


def _content(one: Content, two: Content, separator: str) -> Content:
    if isinstance(one, str) and isinstance(two, str):
        return f"{one}{separator}{two}" if one and two else one or two
    return merge_content(one, _unplaced(two))


def _unplaced(content: Content) -> Content:
    """Take the stream's `index` off: equal places in two messages are not one block."""
    if isinstance(content, str):
        return [content] if content else []
    return [
        item
        if isinstance(item, str)
        else {key: value for key, value in item.items() if key != "index"}
        for item in content
    ]


def _joined_answers(one: AIMessage, two: AIMessage) -> Joined:
    has_usage = one.usage_metadata or two.usage_metadata
    incomplete = "incomplete" in (one.status, two.status)
    status: Status = "incomplete" if incomplete else "complete"
    return {
        "tool_calls": [*one.tool_calls, *two.tool_calls],
        "invalid_tool_calls": [*one.invalid_tool_calls, *two.invalid_tool_calls],
        "usage_metadata": add_request_usage(one.usage_metadata, two.usage_metadata)
        if has_usage
        else None,
        "finish_reason": two.finish_reason or one.finish_reason,
        "status": status,
    }
