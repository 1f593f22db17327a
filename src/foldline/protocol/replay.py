"""A finished message, said again as events: cache hits, models that only answer at once, other people's messages.

`fold(message_to_events(m))` is `m`: its role, id, blocks, usage, finish reason, metadata and additional_kwargs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, cast, runtime_checkable

from foldline.protocol.blocks import FinalizedContentBlock, UsageInfo
from foldline.protocol.events import FINISH_REASONS, Event, FinishReason, Role
from foldline.protocol.folded import RESPONSE_KEYS, FoldedMessage
from foldline.protocol.merge import copy_json
from foldline.protocol.promote import promote
from foldline.protocol.writer import EventWriter

ROLES_OF: Final[dict[str, Role]] = {
    "ai": "ai",
    "AIMessageChunk": "ai",
    "assistant": "ai",
    "human": "human",
    "HumanMessageChunk": "human",
    "user": "human",
    "system": "system",
    "SystemMessageChunk": "system",
    "developer": "system",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "function": "tool",
    "FunctionMessageChunk": "tool",
}
"""Message types and the roles people write in chat messages -> the role on the wire."""


@runtime_checkable
class MessageLike(Protocol):
    """What a message must have to be said as events. Others it may have: see `describe`."""

    @property
    def type(self) -> str:
        """Its kind: ai, human, system, tool, …."""

    @property
    def id(self) -> str | None:
        """Its id."""

    @property
    def content_blocks(self) -> Sequence[Any]:
        """Its content as standard blocks."""

    @property
    def response_metadata(self) -> Mapping[str, Any]:
        """Raw metadata of the provider."""

    @property
    def additional_kwargs(self) -> Mapping[str, Any]:
        """Provider fields that have no block."""


def message_to_events(message: MessageLike, *, message_id: str | None = None) -> Iterator[Event]:
    """Say a message again, with its own role, metadata, additional_kwargs and id, or under another id."""
    folded = describe(message)
    return replay(folded if message_id is None else replace(folded, id=message_id))


async def amessage_to_events(
    message: MessageLike, *, message_id: str | None = None
) -> AsyncIterator[Event]:
    """Say a message again, for a reader who awaits."""
    for event in message_to_events(message, message_id=message_id):
        yield event


def replay(folded: FoldedMessage) -> Iterator[Event]:
    """Say a folded message again."""
    writer = EventWriter(folded.id, folded.role, allow_repeated_ids=True)
    yield from writer.start(metadata=_start_metadata(folded))
    for block in folded.blocks:
        yield from writer.block(cast("Mapping[str, Any]", block), whole=True)
    yield from writer.finish(
        folded.finish_reason,
        usage=cast("Mapping[str, object] | None", folded.usage),
        metadata=folded.metadata,
        additional_kwargs=folded.additional_kwargs,
    )


def describe(message: MessageLike) -> FoldedMessage:
    """Return a message as the value its events fold to.

    `usage_metadata`, `finish_reason`, `status`, `name` and `tool_call_id` are read where the message has them.
    """
    reason = getattr(message, "finish_reason", None)
    status = getattr(message, "status", None)
    blocks = [promote(dict(block)) for block in message.content_blocks]
    return FoldedMessage(
        role=_role(message),
        id=message.id or None,
        blocks=cast("list[FinalizedContentBlock]", blocks),
        usage=cast("UsageInfo | None", copy_json(getattr(message, "usage_metadata", None))) or None,
        finish_reason=cast("FinishReason", reason) if reason in FINISH_REASONS else None,
        metadata=copy_json(dict(message.response_metadata)),
        additional_kwargs=copy_json(dict(message.additional_kwargs)),
        status="incomplete" if status == "incomplete" else "complete",
        fields=_own_fields(message),
    )


def _role(message: MessageLike) -> Role:
    if message.type in ROLES_OF:
        return ROLES_OF[message.type]
    return ROLES_OF.get(str(getattr(message, "role", "")), "human")


def _own_fields(message: MessageLike) -> dict[str, Any]:
    """Collect the message's own fields that travel with its start; `complete` goes without saying."""
    values = {
        "name": getattr(message, "name", None),
        "tool_call_id": getattr(message, "tool_call_id", None),
        "status": getattr(message, "status", None),
    }
    return {key: value for key, value in values.items() if value and value != "complete"}


def _start_metadata(folded: FoldedMessage) -> dict[str, Any]:
    said = {
        name: folded.metadata[key]
        for name, key in RESPONSE_KEYS.items()
        if isinstance(folded.metadata.get(key), str)
    }
    return {**said, **folded.fields}
