"""Marker classes: a handler that inherits one lets `invoke` stream inside, without changing what it returns."""

from __future__ import annotations


class StreamingHandler:
    """Wants v1 tokens (`on_llm_new_token`) from every model run."""


class V2StreamingHandler:
    """Wants content-block events (`on_stream_event`) from every model run."""


_StreamingCallbackHandler = StreamingHandler
_V2StreamingCallbackHandler = V2StreamingHandler
