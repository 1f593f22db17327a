"""Merge consecutive messages of one type, for providers that require alternating turns."""

from __future__ import annotations

from functools import reduce
from itertools import takewhile
from typing import Any, Literal, TypeAlias

from foldline.messages._growth import merge_content, merge_kwargs, reduce_pairs
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
    runs: list[list[BaseMessage]] = []
    for message in convert_to_messages(messages):
        if runs and _is_run(runs[-1][0], message):
            runs[-1].append(message)
        else:
            runs.append([message])
    return [_merge_run(run, chunk_separator) for run in runs]


def _is_run(first: BaseMessage, second: BaseMessage) -> bool:
    if isinstance(second, ToolMessage | RemoveMessage) or type(first) is not type(second):
        return False
    if isinstance(first, ChatMessage) and isinstance(second, ChatMessage):
        return first.role == second.role
    if isinstance(first, FunctionMessage):
        return first.name == second.name
    return True


def _merge_run(run: list[BaseMessage], separator: str) -> BaseMessage:
    """Return one message for all: each part is merged once for the whole run, so that the cost is linear."""
    if len(run) == 1:
        return run[0].model_copy(deep=False)
    update: Fields = {
        "content": _content([message.content for message in run], separator),
        "additional_kwargs": reduce_pairs(
            merge_kwargs, [message.additional_kwargs for message in run]
        ),
    }
    chunks = [message for message in run if isinstance(message, AIMessageChunk)]
    if chunks:
        update["tool_call_chunks"] = [part for chunk in chunks for part in chunk.tool_call_chunks]
    answers = [message for message in run if isinstance(message, AIMessage)]
    if answers:
        update |= _merge_answers(answers)
    return run[0].model_copy(update=update)


def _content(contents: list[Content], separator: str) -> Content:
    """Join the texts up to the first list of blocks; append the rest as blocks."""
    texts = list(takewhile(lambda content: isinstance(content, str), contents))
    text = separator.join(str(text) for text in texts if text)
    if len(texts) == len(contents):
        return text
    blocks = contents[len(texts) :]
    if not texts:
        return merge_content(blocks[0], *(_without_indexes(content) for content in blocks[1:]))
    return merge_content(text, *(_without_indexes(content) for content in blocks))


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


def _merge_answers(answers: list[AIMessage]) -> Fields:
    is_incomplete = any(answer.status == "incomplete" for answer in answers)
    status: Status = "incomplete" if is_incomplete else "complete"
    usages = [answer.usage_metadata for answer in answers if answer.usage_metadata]
    return {
        "tool_calls": [call for answer in answers for call in answer.tool_calls],
        "invalid_tool_calls": [call for answer in answers for call in answer.invalid_tool_calls],
        "usage_metadata": reduce(add_request_usage, usages, None),
        "finish_reason": next(
            (answer.finish_reason for answer in reversed(answers) if answer.finish_reason), None
        ),
        "status": status,
    }
