"""Which calls of an answer may run, and what the model is told of the others. Pure.

A call runs only if its arguments are a strict JSON object, in a finished block of a message that said it was complete
(E5): never when the answer was cut by length, filtered or broken off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from foldline.exceptions import MalformedStreamError
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.messages.tool import ToolCall
from foldline.workflows.interrupts import Command

__all__ = ["answered_update", "closed", "error_message", "problem_of", "unanswered", "with_ids"]

CUT = {
    "length": "the answer was cut off because it was too long",
    "content_filter": "the answer was cut off by a content filter",
    "error": "the answer broke off",
    "refusal": "the answer was a refusal",
}
LONGEST_ERROR = 4000


def with_ids(message: AIMessage) -> AIMessage:
    """Give every call of an answer an id; two calls with one id are refused (F-U09)."""
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    ids = [call.get("id") for call in calls]
    known = [id for id in ids if id]
    if len(set(known)) < len(known):
        twice = next(id for id in known if known.count(id) > 1)
        raise MalformedStreamError(
            f"the model gave two tool calls the id {twice!r}: nobody could tell their results apart",
            partial=message,
        )
    if len(known) == len(ids):
        return message
    fresh = {place: f"call_{uuid4().hex[:24]}" for place, id in enumerate(ids) if not id}
    named = [{**call, "id": fresh.get(place, call.get("id"))} for place, call in enumerate(calls)]
    first = len(message.tool_calls)
    return message.model_copy(
        update={
            "tool_calls": named[:first],
            "invalid_tool_calls": named[first:],
            "content": _rename_blocks(message.content, named),
        }
    )


def _rename_blocks(content: object, calls: list[dict[str, Any]]) -> object:
    if not isinstance(content, list):
        return content
    rest = list(calls)
    blocks = []
    for block in content:
        is_call = isinstance(block, dict) and block.get("type") in (
            "tool_call",
            "invalid_tool_call",
        )
        same = next((one for one in rest if is_call and one.get("name") == block.get("name")), None)
        if same is not None:
            rest.remove(same)
            block = {**block, "id": block.get("id") or same["id"]}
        blocks.append(block)
    return blocks


def problem_of(call: Mapping[str, Any], message: AIMessage, known: Collection[str]) -> str | None:
    """Say why a call may not run; None where it may."""
    name = call.get("name")
    if call.get("type") == "invalid_tool_call" or not isinstance(call.get("args"), dict):
        why = call.get("error") or "they are no JSON object"
        return (
            f"{name or 'the call'} was not run: its arguments could not be read ({why}). "
            "Call it again with a JSON object"
        )
    if message.finish_reason in CUT or message.status == "incomplete":
        why = CUT.get(message.finish_reason or "", "the answer is not complete")
        return f"{name} was not run: {why}. Call it again, with less in one answer"
    if name not in known:
        return f"there is no tool named {name!r}: call one of {', '.join(known) or 'none'}"
    return None


def error_message(call: Mapping[str, Any], text: str) -> ToolMessage:
    """Tell the model what went wrong with a call."""
    if len(text) > LONGEST_ERROR:
        text = f"{text[:LONGEST_ERROR]}… ({len(text) - LONGEST_ERROR} more characters were cut)"
    return ToolMessage(
        f"Error: {text}", tool_call_id=call.get("id") or "", name=call.get("name"), status="error"
    )


def answered_update(call: ToolCall, value: object) -> dict[str, Any]:
    """Return what a tool returned as an update of the state that answers its call."""
    update: dict[str, Any] = {"messages": []}
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, Command):
            more = dict(one.update or {})
            messages = more.pop("messages", [])
            messages = messages if isinstance(messages, list) else [messages]
            update["messages"] += [_with_name(message, call) for message in messages]
            update |= more
            if one.goto is not None:
                update["jump_to"] = "end" if one.goto == "__end__" else one.goto
        elif isinstance(one, ToolMessage):
            update["messages"].append(one)
        else:
            update["messages"].append(
                ToolMessage(str(one), tool_call_id=call["id"] or "", name=call["name"])
            )
    answers = [one for one in update["messages"] if isinstance(one, ToolMessage)]
    if not any(one.tool_call_id == call["id"] for one in answers):
        update["messages"].insert(
            0, ToolMessage("Done.", tool_call_id=call["id"] or "", name=call["name"])
        )
    return update


def _with_name(message: object, call: ToolCall) -> object:
    """Name the tool in an answer to its call that does not say it."""
    if isinstance(message, ToolMessage) and not message.name and message.tool_call_id == call["id"]:
        return message.model_copy(update={"name": call["name"]})
    return message


def unanswered(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return the calls of the last answer that have no result yet, broken ones included."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            calls = [*message.tool_calls, *message.invalid_tool_calls]
            return [call for call in calls if call.get("id") not in answered]
    return []


def closed(messages: Sequence[BaseMessage], text: str) -> list[BaseMessage]:
    """Return a conversation in which every call has a result: where there is none, the text says why."""
    answered = {one.tool_call_id for one in messages if isinstance(one, ToolMessage)}
    whole: list[BaseMessage] = []
    left: list[ToolMessage] = []
    for message in messages:
        if not isinstance(message, ToolMessage):
            whole, left = [*whole, *left], []
        whole.append(message)
        if isinstance(message, AIMessage) and message.tool_calls:
            missing = [one for one in message.tool_calls if one["id"] and one["id"] not in answered]
            left = [error_message(call, text) for call in missing]
    return [*whole, *left]
