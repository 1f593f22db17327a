"""`ChatModelStream` and its async version, under LangChain's path; defined in `foldline._streams`."""

from __future__ import annotations

from foldline._streams.projections import (
    AsyncProjection,
    AsyncTextProjection,
    SyncProjection,
    SyncTextProjection,
)
from foldline._streams.stream import AsyncChatModelStream, ChatModelStream
from foldline._streams.stream_state import dispatch_event

__all__ = [
    "AsyncChatModelStream",
    "AsyncProjection",
    "AsyncTextProjection",
    "ChatModelStream",
    "SyncProjection",
    "SyncTextProjection",
    "dispatch_event",
]
