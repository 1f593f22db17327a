"""Chunks and messages as events, under LangChain's path; the code is in `call.chunk_bridge` and `foldline.protocol`."""

from __future__ import annotations

from typing import Any, TypeAlias

from foldline.language_models._call.bridge import achunks_to_events, chunks_to_events
from foldline.protocol.replay import amessage_to_events, message_to_events

__all__ = [
    "CompatBlock",
    "achunks_to_events",
    "amessage_to_events",
    "chunks_to_events",
    "message_to_events",
]

CompatBlock: TypeAlias = dict[str, Any]
"""A content block on its way from a chunk to an event."""
