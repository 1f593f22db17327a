"""Frames of AWS's event streams, written for tests: the other side of our decoder."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from struct import pack
from typing import Any
from uuid import UUID
from zlib import crc32

Header = tuple[int, Any]
"""Type of a header's value, and the value."""


def frame(headers: Mapping[str, Header], payload: bytes = b"") -> bytes:
    """One frame with headers of any type."""
    block = b"".join(
        bytes([len(name.encode())]) + name.encode() + _value(*value)
        for name, value in headers.items()
    )
    prelude = pack(">II", len(block) + len(payload) + 16, len(block))
    message = prelude + pack(">I", crc32(prelude)) + block + payload
    return message + pack(">I", crc32(message))


def _value(kind: int, value: Any) -> bytes:
    sizes = {2: ">b", 3: ">h", 4: ">i", 5: ">q"}
    if kind in (0, 1):
        return bytes([kind])
    if kind in sizes:
        return bytes([kind]) + pack(sizes[kind], value)
    if kind == 8:
        stamp = round(value.timestamp() * 1000) if isinstance(value, datetime) else value
        return bytes([kind]) + pack(">q", stamp)
    if kind == 9:
        return bytes([kind]) + (value.bytes if isinstance(value, UUID) else value)
    data = value.encode() if isinstance(value, str) else value
    return bytes([kind]) + pack(">H", len(data)) + data


def event(name: str, data: Any) -> bytes:
    """An event as Bedrock sends it."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return frame({key: (7, value) for key, value in headers.items()}, json.dumps(data).encode())


def chunk(data: Any) -> bytes:
    """An event of a model's own API, as InvokeModelWithResponseStream wraps it."""
    return event("chunk", {"bytes": b64encode(json.dumps(data).encode()).decode(), "p": "abcd"})


def exception(name: str, message: str, **fields: Any) -> bytes:
    """An exception inside a stream."""
    headers = {
        ":exception-type": name,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    body = json.dumps({"message": message, **fields}).encode()
    return frame({key: (7, value) for key, value in headers.items()}, body)


def error(code: str, message: str) -> bytes:
    """An error of the stream itself, which has no payload."""
    headers = {":error-code": code, ":error-message": message, ":message-type": "error"}
    return frame({key: (7, value) for key, value in headers.items()})
