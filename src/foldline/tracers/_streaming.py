"""Marker classes: base classes of handlers that need streamed pieces."""

from __future__ import annotations

from uuid import UUID


class StreamingHandler:
    """Wants v1 tokens (`on_llm_new_token`) from every model run, so that `invoke` streams inside."""


class V2StreamingHandler:
    """Wants content-block events (`on_stream_event`) from every model run, so that `invoke` streams inside."""


class StreamObserver:
    """Also sees every piece of a streamed output (`astream_log`, `astream_events`)."""

    def on_chunk(self, run_id: UUID | None, chunk: object) -> None:
        """A piece of a run's output passed by."""


_StreamingCallbackHandler = StreamingHandler
_V2StreamingCallbackHandler = V2StreamingHandler
