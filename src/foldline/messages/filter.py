"""Choosing messages by name, kind, id or tool call. An exclusion always wins over an inclusion."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from foldline.messages._verbs import runnable_verb
from foldline.messages.ai_chunk import AIMessageChunk
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage
from foldline.messages.convert import Messages, convert_to_messages
from foldline.messages.kinds import is_message_type
from foldline.messages.tool import ToolMessage

__all__ = ["filter_messages"]

CALL_BLOCKS = frozenset(
    {"tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call", "function_call"}
)


@runnable_verb
def filter_messages(
    messages: Messages,
    *,
    include_names: Sequence[str] | None = None,
    exclude_names: Sequence[str] | None = None,
    include_types: Sequence[str | type[BaseMessage]] | None = None,
    exclude_types: Sequence[str | type[BaseMessage]] | None = None,
    include_ids: Sequence[str] | None = None,
    exclude_ids: Sequence[str] | None = None,
    exclude_tool_calls: Sequence[str] | bool | None = None,
) -> list[BaseMessage]:
    """Keep the messages that fit one of the inclusions (all, where there are none) and no exclusion."""
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
