"""Recordings of `generateContent`, and what our decoder makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weft._sse import SSEDecoder
from weft.exceptions import ModelError
from weft.messages import AIMessage
from weft.protocol.fold import fold
from weft.providers.google import ChatGoogle
from weft.providers.google.decode import GoogleDecoder

FOLDER = Path(__file__).resolve().parents[2] / "recordings" / "google"
BROKEN = frozenset({"truncated", "error-mid-stream", "error-first"})
STREAMS = sorted(path.stem for path in FOLDER.glob("*.sse") if path.stem not in BROKEN)
PAIRS = sorted(path.stem for path in FOLDER.glob("*.json") if path.with_suffix(".sse").exists())

MODEL = ChatGoogle(model="gemini-3-flash-preview", api_key="key")


def stream_of(name: str) -> bytes:
    return (FOLDER / f"{name}.sse").read_bytes()


def whole_of(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def payloads(raw: bytes) -> list[tuple[str, Any]]:
    sse = SSEDecoder(1 << 20, 1 << 23)
    return [(name, json.loads(data)) for name, data, _ in sse.feed(raw)]


def decoder(**options: Any) -> GoogleDecoder:
    return GoogleDecoder(MODEL._stream_error, model="gemini-3-flash-preview", **options)


def decode_stream(raw: bytes, **options: Any) -> list[Any]:
    decoding = decoder(**options)
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
