"""Which calls of an answer may run, and the error messages for the others. No I/O.

A call runs only if its arguments are a strict JSON object, in a finished block of a complete message (E5): never if the
answer was cut off by length or a filter, or ended early.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from foldline.exceptions import (
    BlockingCallError,
    InvalidRouteError,
    InvalidUpdateError,
    MalformedStreamError,
    MissingExtraError,
    MissingKeyError,
    RecursionLimitError,
    UsageError,
)
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.messages.tool import ToolCall
from foldline.workflows.interrupts import Command

__all__ = [
    "PROGRAM_ERRORS",
    "UNKNOWN_EFFECT",
    "answered_update",
    "error_message",
    "is_program_error",
    "problem_of",
    "unanswered",
    "with_ids",
    "with_results",
]

CUT_REASONS = {
    "length": "the answer was cut off because it was too long",
    "content_filter": "the answer was cut off by a content filter",
    "error": "the answer broke off",
    "refusal": "the answer was a refusal",
}
MAX_ERROR_LENGTH = 4000
UNKNOWN_EFFECT = (
    "{} was called before, and the process or the run ended while it ran: whether it took effect is not known. "
    "Find out before you call it again."
)
PROGRAM_ERRORS = (
    UsageError,
    BlockingCallError,
    MissingExtraError,
    InvalidUpdateError,
    InvalidRouteError,
)
"""Errors of foldline that say that a program uses it wrongly, or that a package is missing."""


def with_ids(message: AIMessage) -> AIMessage:
    """Return an answer whose calls all have an id; raise if two calls have the same id (F-U09)."""
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    ids = [call.get("id") for call in calls]
    present_ids = [id for id in ids if id]
    if len(set(present_ids)) < len(present_ids):
        duplicate = next(id for id in present_ids if present_ids.count(id) > 1)
        raise MalformedStreamError(
            f"the model returned two tool calls with the id {duplicate!r}: their results could not be told apart",
            partial=message,
        )
    if len(present_ids) == len(ids):
        return message
    new_ids = {index: f"call_{uuid4().hex[:24]}" for index, id in enumerate(ids) if not id}
    calls_with_ids = [
        {**call, "id": new_ids.get(index, call.get("id"))} for index, call in enumerate(calls)
    ]
    valid_count = len(message.tool_calls)
    return message.model_copy(
        update={
            "tool_calls": calls_with_ids[:valid_count],
            "invalid_tool_calls": calls_with_ids[valid_count:],
            "content": _rename_blocks(message.content, calls_with_ids),
        }
    )


def _rename_blocks(content: object, calls: list[dict[str, Any]]) -> object:
    if not isinstance(content, list):
        return content
    remaining = list(calls)
    blocks = []
    for block in content:
        is_call = isinstance(block, dict) and block.get("type") in (
            "tool_call",
            "invalid_tool_call",
        )
        match = next(
            (call for call in remaining if is_call and call.get("name") == block.get("name")), None
        )
        if match is not None:
            remaining.remove(match)
            block = {**block, "id": block.get("id") or match["id"]}
        blocks.append(block)
    return blocks


def problem_of(call: Mapping[str, Any], message: AIMessage, known: Collection[str]) -> str | None:
    """Return why a call may not run; None if it may."""
    name = call.get("name")
    if call.get("type") == "invalid_tool_call" or not isinstance(call.get("args"), dict):
        reason = call.get("error") or "they are not a JSON object"
        return (
            f"{name or 'the call'} was not run: its arguments could not be read ({reason}). "
            "Call it again with a JSON object"
        )
    if message.finish_reason in CUT_REASONS or message.status == "incomplete":
        reason = CUT_REASONS.get(message.finish_reason or "", "the answer is not complete")
        return f"{name} was not run: {reason}. Call it again, with less in one answer"
    if name not in known:
        return f"there is no tool named {name!r}: call one of {', '.join(known) or 'none'}"
    return None


def is_program_error(error: BaseException) -> bool:
    """Whether an error of a tool is a wrong use of foldline by the program, which another call would not fix.

    A name that does not exist and a nested run with too many steps may depend on the model's arguments.
    """
    return isinstance(error, PROGRAM_ERRORS) and not isinstance(
        error, MissingKeyError | RecursionLimitError
    )


def error_message(call: Mapping[str, Any], text: str) -> ToolMessage:
    """Return the tool message that reports an error of a call."""
    if len(text) > MAX_ERROR_LENGTH:
        text = (
            f"{text[:MAX_ERROR_LENGTH]}… ({len(text) - MAX_ERROR_LENGTH} more characters were cut)"
        )
    return ToolMessage(
        f"Error: {text}", tool_call_id=call.get("id") or "", name=call.get("name"), status="error"
    )


def answered_update(call: ToolCall, value: object) -> dict[str, Any]:
    """Return a tool's result as an update of the state that has a message for the call."""
    update: dict[str, Any] = {"messages": []}
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, Command):
            command_update = dict(item.update or {})
            messages = command_update.pop("messages", [])
            messages = messages if isinstance(messages, list) else [messages]
            update["messages"] += [_with_name(message, call) for message in messages]
            update |= command_update
            if item.goto is not None:
                update["jump_to"] = "end" if item.goto == "__end__" else item.goto
        elif isinstance(item, ToolMessage):
            update["messages"].append(item)
        else:
            update["messages"].append(
                ToolMessage(str(item), tool_call_id=call["id"] or "", name=call["name"])
            )
    answers = [message for message in update["messages"] if isinstance(message, ToolMessage)]
    if not any(answer.tool_call_id == call["id"] for answer in answers):
        update["messages"].insert(
            0, ToolMessage("Done.", tool_call_id=call["id"] or "", name=call["name"])
        )
    return update


def _with_name(message: object, call: ToolCall) -> object:
    """Return a message with the tool's name, if it answers the call and has no name."""
    if isinstance(message, ToolMessage) and not message.name and message.tool_call_id == call["id"]:
        return message.model_copy(update={"name": call["name"]})
    return message


def unanswered(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return the calls of the last answer that have no result yet, including invalid ones."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            calls = [*message.tool_calls, *message.invalid_tool_calls]
            return [call for call in calls if call.get("id") not in answered]
    return []


def with_results(messages: Sequence[BaseMessage], text: str) -> list[BaseMessage]:
    """Return a conversation in which every call has a result; missing results are errors with this text."""
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    completed: list[BaseMessage] = []
    error_results: list[ToolMessage] = []
    for message in messages:
        if not isinstance(message, ToolMessage):
            completed, error_results = [*completed, *error_results], []
        completed.append(message)
        if isinstance(message, AIMessage) and message.tool_calls:
            error_results = [
                error_message(call, text)
                for call in message.tool_calls
                if call["id"] and call["id"] not in answered
            ]
    return [*completed, *error_results]
