"""Marker classes: base classes of handlers that need streamed pieces."""

from __future__ import annotations

from uuid import UUID

from foldline._lazy import publish
from foldline.utils.short_repr import short_repr


class StreamingHandler:
    """A base class of handlers that need v1 tokens (`on_llm_new_token`): under it `invoke` streams too."""

    __repr__ = short_repr


class V2StreamingHandler:
    """A base class of handlers that need content-block events (`on_stream_event`): under it `invoke` streams too."""

    __repr__ = short_repr


class StreamObserver:
    """A base class of handlers that get every piece of a streamed output (`astream_log`, `astream_events`)."""

    def on_chunk(self, run_id: UUID | None, chunk: object) -> None:
        """Take a piece of the output of a run."""


publish("foldline.tracers", StreamingHandler, V2StreamingHandler)

_StreamingCallbackHandler = StreamingHandler
_V2StreamingCallbackHandler = V2StreamingHandler
