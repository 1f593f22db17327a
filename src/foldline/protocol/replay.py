"""Replays a finished message as events: cache hits, models that do not stream, messages of other libraries.

`fold(message_to_events(m))` is `m`: its role, id, blocks, usage, finish reason, metadata and additional_kwargs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, Protocol, assert_never, cast, runtime_checkable

from foldline.protocol.blocks import FinalizedContentBlock, UsageInfo
from foldline.protocol.events import (
    EVENT_KINDS,
    FINISH_REASONS,
    Event,
    EventKind,
    FinishReason,
    Role,
)
from foldline.protocol.folded_message import RESPONSE_KEYS, FoldedMessage
from foldline.protocol.merge import copy_json
from foldline.protocol.tool_call_parser import promote
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
    """A message that can be replayed as events. Optional fields: see `describe`."""

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
    """Return the events of a message, with its role, metadata, additional_kwargs and id, or with another id."""
    folded = describe(message)
    return replay(folded if message_id is None else replace(folded, id=message_id))


async def amessage_to_events(
    message: MessageLike, *, message_id: str | None = None
) -> AsyncIterator[Event]:
    """Yield the events of a message to an async reader."""
    for event in message_to_events(message, message_id=message_id):
        yield event


def replay(folded: FoldedMessage) -> Iterator[Event]:
    """Yield the events of a folded message, in the order of the protocol."""
    writer = EventWriter(folded.id, folded.role, allow_repeated_ids=True)
    for kind in EVENT_KINDS:
        yield from _write_events(kind, writer, folded)


def _write_events(kind: EventKind, writer: EventWriter, folded: FoldedMessage) -> Iterable[Event]:
    """Return the events that the message has of one kind; those of a block come together, after its start."""
    match kind:
        case "message-start":
            return writer.start(metadata=_start_metadata(folded))
        case "content-block-start":
            blocks = cast("list[Mapping[str, Any]]", folded.blocks)
            return chain.from_iterable(writer.block(block, is_complete=True) for block in blocks)
        case "content-block-delta" | "content-block-finish":
            return ()  # written after the start of their block
        case "message-finish":
            return writer.finish(
                folded.finish_reason,
                usage=cast("Mapping[str, object] | None", folded.usage),
                metadata=folded.metadata,
                additional_kwargs=folded.additional_kwargs,
            )
        case "message-reset" | "error":
            return ()  # a folded message holds neither
        case _:
            assert_never(kind)


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
        fields=_start_fields(message),
    )


def _role(message: MessageLike) -> Role:
    if message.type in ROLES_OF:
        return ROLES_OF[message.type]
    return ROLES_OF.get(str(getattr(message, "role", "")), "human")


def _start_fields(message: MessageLike) -> dict[str, Any]:
    """Return the fields of a message that are sent in its start; `complete` is the default and left out."""
    values = {
        "name": getattr(message, "name", None),
        "tool_call_id": getattr(message, "tool_call_id", None),
        "status": getattr(message, "status", None),
    }
    return {key: value for key, value in values.items() if value and value != "complete"}


def _start_metadata(folded: FoldedMessage) -> dict[str, Any]:
    response_metadata = {
        name: folded.metadata[key]
        for name, key in RESPONSE_KEYS.items()
        if isinstance(folded.metadata.get(key), str)
    }
    return {**response_metadata, **folded.fields}
