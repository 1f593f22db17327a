"""Recordings of the messages API, and what our decoder makes of them."""

from __future__ import annotations

from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.anthropic.decode import AnthropicDecoder
from tests.providers import recordings
from tests.providers.recordings import Recorded, message_of, payloads_of as payloads

__all__ = ["message_of", "payloads"]

LLAMA = sorted((recordings.FOLDER / "llama").glob("messages-*.sse"))
MODEL = ChatAnthropic(model="claude-sonnet-5", api_key="key")
BROKEN = ("truncated", "error-mid-stream", "error-first", "error-without-key", "error-as-text")


def decoder() -> AnthropicDecoder:
    return AnthropicDecoder(MODEL._stream_error, model="claude-sonnet-5")


RECORDED = Recorded("anthropic", decoder, BROKEN)
STREAMS, PAIRS = RECORDED.streams, RECORDED.pairs
stream_of, whole_of = RECORDED.stream_of, RECORDED.whole_of
decode_stream, decode_until_error = RECORDED.decode_stream, RECORDED.decode_until_error
