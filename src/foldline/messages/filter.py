"""Choosing messages by name, kind, id or tool call. An exclusion always wins over an inclusion."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar, cast

from foldline.messages._verbs import runnable_verb
from foldline.messages.ai_chunk import AIMessageChunk
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage
from foldline.messages.convert import Messages, convert_to_messages
from foldline.messages.kinds import is_message_type
from foldline.messages.tool import ToolMessage

__all__ = ["filter_messages"]

Kind = str | type[BaseMessage]
Item = TypeVar("Item", bound=Kind)

CALL_BLOCKS = frozenset(
    {"tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call", "function_call"}
)


@runnable_verb
def filter_messages(
    messages: Messages,
    *,
    include_names: str | Sequence[str] | None = None,
    exclude_names: str | Sequence[str] | None = None,
    include_types: Kind | Sequence[Kind] | None = None,
    exclude_types: Kind | Sequence[Kind] | None = None,
    include_ids: str | Sequence[str] | None = None,
    exclude_ids: str | Sequence[str] | None = None,
    exclude_tool_calls: str | Sequence[str] | bool | None = None,
) -> list[BaseMessage]:
    """Keep the messages that fit one of the inclusions (all, where there are none) and no exclusion.

    A single name, kind or id stands for a list of one.
    """
    include_names, exclude_names = _as_list(include_names), _as_list(exclude_names)
    include_types, exclude_types = _as_list(include_types), _as_list(exclude_types)
    include_ids, exclude_ids = _as_list(include_ids), _as_list(exclude_ids)
    if isinstance(exclude_tool_calls, str):
        exclude_tool_calls = [exclude_tool_calls]
    kept = []
    for message in convert_to_messages(messages):
        if _fits(message, exclude_names, exclude_types, exclude_ids):
            continue
        remaining = _without_calls(message, exclude_tool_calls)
        wanted = not (include_names or include_types or include_ids)
        if remaining is not None and (
            wanted or _fits(message, include_names, include_types, include_ids)
        ):
            kept.append(remaining)
    return kept


def _as_list(value: Item | Sequence[Item] | None) -> Sequence[Item] | None:
    return [value] if isinstance(value, str | type) else cast("Sequence[Item]", value)


def _fits(
    message: BaseMessage,
    names: Sequence[str] | None,
    types: Sequence[str | type[BaseMessage]] | None,
    ids: Sequence[str] | None,
) -> bool:
    return bool(
        (names and message.name in names)
        or (types and is_message_type(message, list(types)))
        or (ids and message.id in ids)
    )


def _without_calls(message: BaseMessage, calls: Sequence[str] | bool | None) -> BaseMessage | None:  # noqa: FBT001  True means all
    """Take calls (and their results) out of a message; None if nothing is left of it."""
    if calls and isinstance(message, ToolMessage):
        return None if calls is True or message.tool_call_id in calls else message
    if not calls or not isinstance(message, AIMessage) or not message.tool_calls:
        return message
    left = [call for call in message.tool_calls if calls is not True and call["id"] not in calls]
    if calls is True or not left:
        return None
    update = {"tool_calls": left, "content": _content_without(message, calls)}
    if isinstance(message, AIMessageChunk):
        update["tool_call_chunks"] = [
            chunk for chunk in message.tool_call_chunks if chunk["id"] not in calls
        ]
    return message.model_copy(update=update)


def _content_without(message: AIMessage, calls: Collection[str]) -> object:
    if isinstance(message.content, str):
        return message.content
    return [
        item
        for item in message.content
        if isinstance(item, str)
        or item.get("type") not in CALL_BLOCKS
        or (item.get("call_id") or item.get("id")) not in calls
    ]
