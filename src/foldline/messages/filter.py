"""Select messages by name, type, id or tool call. An exclusion overrides an inclusion."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar, cast

from foldline.messages._kinds import is_message_type
from foldline.messages._runnable_function import runnable_function
from foldline.messages.ai_chunk import AIMessageChunk
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage
from foldline.messages.convert import Messages, convert_to_messages
from foldline.messages.tool import ToolMessage

__all__ = ["filter_messages"]

Kind = str | type[BaseMessage]
Item = TypeVar("Item", bound=Kind)

CALL_BLOCKS = frozenset(
    {"tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call", "function_call"}
)


@runnable_function
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
    """Return the messages that match an inclusion (all, if there are none) and no exclusion.

    A single name, type or id is the same as a list of one.
    """
    include_names, exclude_names = _as_list(include_names), _as_list(exclude_names)
    include_types, exclude_types = _as_list(include_types), _as_list(exclude_types)
    include_ids, exclude_ids = _as_list(include_ids), _as_list(exclude_ids)
    if isinstance(exclude_tool_calls, str):
        exclude_tool_calls = [exclude_tool_calls]
    selected = []
    for message in convert_to_messages(messages):
        if _matches(message, exclude_names, exclude_types, exclude_ids):
            continue
        remaining = _without_calls(message, exclude_tool_calls)
        includes_all = not (include_names or include_types or include_ids)
        if remaining is not None and (
            includes_all or _matches(message, include_names, include_types, include_ids)
        ):
            selected.append(remaining)
    return selected


def _as_list(value: Item | Sequence[Item] | None) -> Sequence[Item] | None:
    return [value] if isinstance(value, str | type) else cast("Sequence[Item]", value)


def _matches(
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
    """Return a message without some calls (or their results); None if nothing remains."""
    if calls and isinstance(message, ToolMessage):
        return None if calls is True or message.tool_call_id in calls else message
    if not calls or not isinstance(message, AIMessage) or not message.tool_calls:
        return message
    remaining_calls = [
        call for call in message.tool_calls if calls is not True and call["id"] not in calls
    ]
    if calls is True or not remaining_calls:
        return None
    update = {"tool_calls": remaining_calls, "content": _content_without(message, calls)}
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
