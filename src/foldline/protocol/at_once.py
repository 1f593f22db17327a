"""A message that is one text and came whole, as events: what the writer would say of it, without a writer."""

from __future__ import annotations

from foldline.protocol.events import Event, MessageFinish, MetadataScalar

__all__ = ["text_at_once"]


def text_at_once(
    text: str, id: str, metadata: dict[str, MetadataScalar], finish: MessageFinish
) -> list[Event]:
    """Give the events of a message; what is given was looked at by the caller, and is not copied."""
    return [
        {"event": "message-start", "role": "ai", "id": id, "metadata": metadata},
        {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}},
        {"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta", "text": text}},
        {"event": "content-block-finish", "index": 0, "content": {"type": "text", "text": text}},
        finish,
    ]
