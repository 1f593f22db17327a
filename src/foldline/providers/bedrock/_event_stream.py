"""Bytes of `application/vnd.amazon.eventstream` -> frames: prelude, headers, payload, two CRC32 sums. Pure.

A frame is `total length | headers length | CRC of these eight bytes | headers | payload | CRC of all before`, numbers
in network order. The bytes may be cut anywhere. Frames before a fault are returned; the fault is in `error`, and the
next call raises it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Final, TypeAlias
from uuid import UUID
from zlib import crc32

from foldline.exceptions import LimitExceededError, MalformedStreamError, ModelError

__all__ = ["EventStreamDecoder", "Frame", "HeaderValue"]

HeaderValue: TypeAlias = bool | int | bytes | str | datetime | UUID

PRELUDE: Final = Struct(">III")
CHECKSUM: Final = Struct(">I")
LENGTH: Final = Struct(">H")
MIN_FRAME_SIZE: Final = PRELUDE.size + CHECKSUM.size
MAX_HEADERS: Final = 128 * 1024
MAX_PAYLOAD: Final = 24 * 1024 * 1024
"""The largest payload that the format allows."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _read_timestamp(data: bytes) -> HeaderValue:
    milliseconds = int.from_bytes(data, "big", signed=True)
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return milliseconds  # a date outside Python's range


def _read_integer(data: bytes) -> HeaderValue:
    return int.from_bytes(data, "big", signed=True)


FIXED_SIZE_TYPES: Final[dict[int, tuple[int, Callable[[bytes], HeaderValue]]]] = {
    0: (0, lambda _: True),
    1: (0, lambda _: False),
    2: (1, _read_integer),
    3: (2, _read_integer),
    4: (4, _read_integer),
    5: (8, _read_integer),
    8: (8, _read_timestamp),
    9: (16, lambda data: UUID(bytes=data)),
}
"""Type of a header's value -> its size and reader."""
VARIABLE_SIZE_TYPES: Final[dict[int, Callable[[bytes], HeaderValue]]] = {
    6: bytes,
    7: lambda data: data.decode(),
}
"""Type whose value begins with its length, in two bytes -> its reader."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message of the stream."""

    headers: dict[str, HeaderValue] = field(default_factory=dict)
    payload: bytes = b""

    def text_header(self, name: str) -> str:
        """Return a header as text; empty if it is absent."""
        value = self.headers.get(name, "")
        return value if isinstance(value, str) else str(value)


class EventStreamDecoder:
    """Decodes a stream, slice by slice.

    ```python
    decoder = EventStreamDecoder()
    frame = bytes.fromhex("00000010 00000000 05c248eb 7d98c8ff")
    print(decoder.feed(frame[:5]), decoder.feed(frame[5:]))
    #> [] [Frame(headers={}, payload=b'')]
    ```
    """

    __slots__ = ("_buffer", "_frame_size", "_max_payload", "error")

    def __init__(self, max_payload: int = MAX_PAYLOAD) -> None:
        self._max_payload = max_payload
        self._buffer = bytearray()
        self._frame_size = 0
        """Size of the current frame; 0 until its prelude is complete."""
        self.error: ModelError | None = None
        """The error that the next call raises."""

    @property
    def is_clean(self) -> bool:
        """Whether the bytes so far end with a complete frame."""
        return not self._buffer

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that the next bytes complete."""
        if self.error is not None:
            raise self.error
        self._buffer += data
        frames: list[Frame] = []
        try:
            while (frame := self._next_frame()) is not None:
                frames.append(frame)
        except ModelError as error:
            self.error = error
            self._buffer.clear()
        return frames

    def _next_frame(self) -> Frame | None:
        if not self._frame_size and len(self._buffer) >= PRELUDE.size:
            self._frame_size = self._read_prelude()
        if not self._frame_size or len(self._buffer) < self._frame_size:
            return None
        data = bytes(self._buffer[: self._frame_size])
        del self._buffer[: self._frame_size]
        self._frame_size = 0
        return _read_frame(data)

    def _read_prelude(self) -> int:
        """Check the prelude's checksum and sizes; return the size of the frame."""
        total, headers, checksum = PRELUDE.unpack_from(self._buffer)
        if crc32(self._buffer[:8]) != checksum:
            raise MalformedStreamError(
                "the checksum of a frame's prelude is wrong: is this an AWS event stream?"
            )
        payload = total - headers - MIN_FRAME_SIZE
        if total < MIN_FRAME_SIZE or payload < 0:
            raise MalformedStreamError(
                f"a frame of {total} bytes cannot hold {headers} bytes of headers"
            )
        if headers > MAX_HEADERS or payload > self._max_payload:
            raise LimitExceededError(
                f"a frame has {headers} bytes of headers and {payload} of payload; "
                f"the most are {MAX_HEADERS} and {self._max_payload}"
            )
        return int(total)


def _read_frame(data: bytes) -> Frame:
    (checksum,) = CHECKSUM.unpack_from(data, len(data) - CHECKSUM.size)
    if crc32(memoryview(data)[: -CHECKSUM.size]) != checksum:
        raise MalformedStreamError("the checksum of a frame is wrong")
    _, headers_size, _ = PRELUDE.unpack_from(data)
    headers_end = PRELUDE.size + headers_size
    headers = _read_headers(data[PRELUDE.size : headers_end])
    return Frame(headers, data[headers_end : -CHECKSUM.size])


def _read_headers(data: bytes) -> dict[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    offset = 0
    try:
        while offset < len(data):
            name_size = data[offset]
            name = _take(data, offset + 1, name_size).decode()
            value, offset = _read_value(data, offset + 1 + name_size)
            if name in headers:
                raise MalformedStreamError(f"a frame has the header {name!r:.80} twice")
            headers[name] = value
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedStreamError(f"the headers of a frame do not parse: {error}") from error
    return headers


def _read_value(data: bytes, offset: int) -> tuple[HeaderValue, int]:
    """Return a header's value and where the next header begins."""
    kind, offset = data[offset], offset + 1
    if kind in FIXED_SIZE_TYPES:
        size, read = FIXED_SIZE_TYPES[kind]
    elif kind in VARIABLE_SIZE_TYPES:
        (size,) = LENGTH.unpack(_take(data, offset, LENGTH.size))
        read, offset = VARIABLE_SIZE_TYPES[kind], offset + LENGTH.size
    else:
        raise MalformedStreamError(f"a header of a frame has the unknown type {kind}")
    return read(_take(data, offset, size)), offset + size


def _take(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise IndexError("a header is longer than the headers of its frame")
    return data[start : start + size]
