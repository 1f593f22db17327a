"""Recordings of `generateContent`, and what our decoder makes of them."""

from __future__ import annotations

from typing import Any

from foldline.providers.google import ChatGoogle
from foldline.providers.google.decode import GoogleDecoder
from tests.providers.recordings import Recorded, message_of, payloads_of as payloads

__all__ = ["message_of", "payloads"]

MODEL = ChatGoogle(model="gemini-3-flash-preview", api_key="key")


def decoder(**options: Any) -> GoogleDecoder:
    return GoogleDecoder(MODEL._stream_error, model="gemini-3-flash-preview", **options)


RECORDED = Recorded("google", decoder, ("truncated", "error-mid-stream", "error-first"))
STREAMS, PAIRS = RECORDED.streams, RECORDED.pairs
stream_of, whole_of = RECORDED.stream_of, RECORDED.whole_of
decode_stream, decode_until_error = RECORDED.decode_stream, RECORDED.decode_until_error
