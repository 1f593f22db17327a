"""Recordings of the messages API, and what our decoder makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weft._sse import SSEDecoder
from weft.exceptions import ModelError
from weft.messages import AIMessage
from weft.protocol.fold import fold
from weft.providers.anthropic import ChatAnthropic
from weft.providers.anthropic.decode import AnthropicDecoder

ROOT = Path(__file__).resolve().parents[2] / "recordings"
FOLDER = ROOT / "anthropic"
LLAMA = sorted((ROOT / "llama").glob("messages-*.sse"))
PAIRS = sorted(path.stem for path in FOLDER.glob("*.json"))
BROKEN = frozenset(
    {"truncated", "error-mid-stream", "error-first", "error-without-key", "error-as-text"}
)
STREAMS = sorted(path.stem for path in FOLDER.glob("*.sse") if path.stem not in BROKEN)

MODEL = ChatAnthropic(model="claude-sonnet-5", api_key="key")


def stream_of(name: str) -> bytes:
    return (FOLDER / f"{name}.sse").read_bytes()


def whole_of(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def payloads(raw: bytes) -> list[tuple[str, Any]]:
    sse = SSEDecoder(1 << 20, 1 << 23)
    return [(name, json.loads(data)) for name, data, _ in sse.feed(raw)]


def decoder() -> AnthropicDecoder:
    return AnthropicDecoder(MODEL._stream_error, model="claude-sonnet-5")


def decode_stream(raw: bytes) -> list[Any]:
    decoding = decoder()
    events = [event for name, data in payloads(raw) for event in decoding.feed(data, name)]
    return events + decoding.end(marked=False)


def message_of(events: list[Any], version: str = "v1") -> AIMessage:
    return AIMessage.from_fold(fold(events), version)


def decode_until_error(raw: bytes) -> tuple[list[Any], ModelError]:
    decoding, events = decoder(), []
    try:
        for name, data in payloads(raw):
            events += decoding.feed(data, name)
        events += decoding.end(marked=False)
    except ModelError as error:
        return events, error
    raise AssertionError("no error was raised")
