"""`ChatModelStream` and its async version, under LangChain's path; defined in `foldline.language_models.streams`."""

from __future__ import annotations

from foldline.language_models.streams.projections import (
    AsyncProjection,
    AsyncTextProjection,
    SyncProjection,
    SyncTextProjection,
)
from foldline.language_models.streams.state import dispatch_event
from foldline.language_models.streams.stream import AsyncChatModelStream, ChatModelStream

__all__ = [
    "AsyncChatModelStream",
    "AsyncProjection",
    "AsyncTextProjection",
    "ChatModelStream",
    "SyncProjection",
    "SyncTextProjection",
    "dispatch_event",
]
