"""What a history must fulfil before it is sent: it has messages, and calls and results come in pairs. Pure.

Providers refuse such histories too, each in other words and without the place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.messages.dicts import finished_blocks

__all__ = ["TYPES_WITHOUT_CALLS", "answered_ids", "check_messages"]

Block: TypeAlias = dict[str, Any]

CALLS: Final = ("tool_call", "invalid_tool_call")
RESULT_KEYS: Final = ("tool_use_id", "toolUseId", "tool_call_id", "call_id")
"""The id of the call, in a result that is a block in a provider's own format."""
TYPES_WITHOUT_CALLS: Final = frozenset({HumanMessage, SystemMessage})
"""Checked first by exact type: `isinstance` with a Pydantic class is slow."""


def check_messages(messages: list[BaseMessage]) -> None:
    """Raise on an empty history, on a result without its call and on a call without its result (F-U09)."""
    if not messages:
        raise UsageError(
            "there is no message to send: pass text, or a list with at least one message "
            '([HumanMessage("…")])'
        )
    call_ids: set[str] = set()
    unanswered: dict[str, tuple[int, str]] = {}
    """Id -> the place of the message that makes the call, and the tool's name."""
    for place, message in enumerate(messages):
        if type(message) in TYPES_WITHOUT_CALLS:
            continue
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                if id := call.get("id"):
                    call_ids.add(str(id))
                    unanswered[str(id)] = (place, call["name"])
            call_ids |= {str(call["id"]) for call in message.invalid_tool_calls if call.get("id")}
        elif isinstance(message, ToolMessage):
            unanswered.pop(message.tool_call_id, None)
            if message.tool_call_id not in call_ids:
                call_ids |= _calls_in_blocks(messages[:place])
                _check_call(message, place, call_ids)
    if unanswered:
        _check_answered(messages, unanswered)


def answered_ids(messages: Iterable[BaseMessage]) -> set[str]:
    """Return the ids of the calls that have a result. A call that did not parse is sent only if it has one."""
    return {
        message.tool_call_id
        for message in messages
        if type(message) not in TYPES_WITHOUT_CALLS and isinstance(message, ToolMessage)
    }


def _check_call(message: ToolMessage, place: int, call_ids: set[str]) -> None:
    if message.tool_call_id not in call_ids:
        raise UsageError(
            f"messages[{place}] is the result of the call {message.tool_call_id!r}, but no message before it "
            "makes that call: send the AIMessage with the call too (trim_messages keeps pairs together)"
        )


def _check_answered(messages: list[BaseMessage], unanswered: dict[str, tuple[int, str]]) -> None:
    first = min(place for place, _ in unanswered.values())
    in_blocks = set(_results_in_blocks(messages[first + 1 :]))
    missing = {id: entry for id, entry in unanswered.items() if id not in in_blocks}
    if not missing:
        return
    id, (place, name) = next(iter(missing.items()))
    others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    raise UsageError(
        f"messages[{place}] calls the tool {name!r} (call {id!r}){others}, but no message after it has the result: "
        f"add ToolMessage(..., tool_call_id={id!r}) after it, or leave out the message with the call"
    )


def _results_in_blocks(messages: list[BaseMessage]) -> Iterator[str]:
    """Yield the ids of results that messages have in their content, in a provider's own format."""
    for message in messages:
        yield str(message.additional_kwargs.get("tool_call_id") or "")
        for block in message.content if isinstance(message.content, list) else ():
            if isinstance(block, dict):
                inner = block.get("toolResult")
                fields = {**block, **inner} if isinstance(inner, dict) else block
                yield from (str(fields[key]) for key in RESULT_KEYS if fields.get(key))


def _calls_in_blocks(messages: list[BaseMessage]) -> set[str]:
    """Return the ids of calls that messages have only in their content, in a provider's own format."""
    blocks: list[Block] = [
        dict(block)
        for message in messages
        if isinstance(message, AIMessage) and isinstance(message.content, list)
        for block in finished_blocks(message)
    ]
    return {str(id) for block in blocks for id in _ids_of_call(block) if id}


def _ids_of_call(block: Block) -> list[Any]:
    """Return the ids that a tool result may use for a call; [] if a block is not a call."""
    kind, extras, value = block["type"], block.get("extras"), block.get("value")
    if kind in CALLS:
        return [block.get("id")]
    if kind == "server_tool_call" and isinstance(extras, dict):
        return [extras.get("call_id")]  # the client runs it: OpenAI's computer and local shell
    if kind == "non_standard" and isinstance(value, dict):
        return [value.get("call_id"), value.get("id")]
    return []
