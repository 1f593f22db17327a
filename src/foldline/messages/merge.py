"""Merge consecutive messages of one type, for providers that require alternating turns."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from foldline.messages._growth import merge_content, merge_kwargs
from foldline.messages._runnable_function import runnable_function
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

Fields: TypeAlias = dict[str, Any]
Status: TypeAlias = Literal["complete", "incomplete"]


@runnable_function
def merge_message_runs(messages: Messages, *, chunk_separator: str = "\n") -> list[BaseMessage]:
    """Return messages with consecutive ones of the same type merged; tool messages stay separate."""
    merged: list[BaseMessage] = []
    for message in convert_to_messages(messages):
        if merged and _is_run(merged[-1], message):
            merged[-1] = _merge_pair(merged[-1], message, chunk_separator)
        else:
            merged.append(message.model_copy(deep=False))
    return merged


def _is_run(first: BaseMessage, second: BaseMessage) -> bool:
    if isinstance(second, ToolMessage | RemoveMessage) or type(first) is not type(second):
        return False
    if isinstance(first, ChatMessage) and isinstance(second, ChatMessage):
        return first.role == second.role
    if isinstance(first, FunctionMessage):
        return first.name == second.name
    return True


def _merge_pair(first: BaseMessage, second: BaseMessage, separator: str) -> BaseMessage:
    update: Fields = {
        "content": _content(first.content, second.content, separator),
        "additional_kwargs": merge_kwargs(first.additional_kwargs, second.additional_kwargs),
    }
    if isinstance(first, AIMessageChunk) and isinstance(second, AIMessageChunk):
        update["tool_call_chunks"] = [*first.tool_call_chunks, *second.tool_call_chunks]
    if isinstance(first, AIMessage) and isinstance(second, AIMessage):
        update |= _merge_answers(first, second)
    return first.model_copy(update=update)


def _content(first: Content, second: Content, separator: str) -> Content:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{separator}{second}" if first and second else first or second
    return merge_content(first, _without_indexes(second))


def _without_indexes(content: Content) -> Content:
    """Return content without stream indexes: equal indexes in two messages are not the same block."""
    if isinstance(content, str):
        return [content] if content else []
    return [
        item
        if isinstance(item, str)
        else {key: value for key, value in item.items() if key != "index"}
        for item in content
    ]


def _merge_answers(first: AIMessage, second: AIMessage) -> Fields:
    has_usage = first.usage_metadata or second.usage_metadata
    is_incomplete = "incomplete" in (first.status, second.status)
    status: Status = "incomplete" if is_incomplete else "complete"
    return {
        "tool_calls": [*first.tool_calls, *second.tool_calls],
        "invalid_tool_calls": [*first.invalid_tool_calls, *second.invalid_tool_calls],
        "usage_metadata": add_request_usage(first.usage_metadata, second.usage_metadata)
        if has_usage
        else None,
        "finish_reason": second.finish_reason or first.finish_reason,
        "status": status,
    }
