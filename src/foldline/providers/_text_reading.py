"""Bytes of a streamed text -> pieces: parse server-sent events or JSON lines, then the vendor's format. Pure.

Pieces before a fault are returned before it is raised, even if both were in one chunk of the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from foldline._sse import SSEDecoder
from foldline.exceptions import FoldlineError, LimitExceededError
from foldline.outputs import GenerationChunk
from foldline.providers._endpoint import Body
from foldline.providers._wire import Malformed, guarded
from foldline.transports import SizeLimits

__all__ = ["TextDecoder", "TextReading"]


class TextDecoder(Protocol):
    """Decodes the payloads of one stream into pieces of text; does no I/O."""

    @property
    def is_complete(self) -> bool:
        """Whether the answer is complete: nothing that follows is read."""

    @property
    def is_stopped(self) -> bool:
        """Whether the vendor sent a stop reason: the stream may end."""

    def feed(self, data: Body, event: str) -> GenerationChunk | None:
        """Decode one payload; `event` is its SSE event name."""


class TextReading:
    """Reads one stream chunk by chunk."""

    __slots__ = (
        "_by_line",
        "_decoder",
        "_line",
        "_line_size",
        "_malformed",
        "_max_line",
        "_parse",
        "_sse",
        "fault",
        "is_over",
    )

    def __init__(
        self,
        decoder: TextDecoder,
        parse: Callable[[str | bytes], Any],
        malformed: Malformed,
        limits: SizeLimits,
        *,
        by_line: bool,
    ) -> None:
        self._decoder = decoder
        self._parse = parse
        self._malformed = malformed
        self._by_line = by_line
        self._line: list[bytes] = []
        """Slices of the incomplete line."""
        self._line_size = 0
        self._max_line = limits.sse_event
        self._sse = SSEDecoder(limits.sse_line, limits.sse_event)
        self.fault: Exception | None = None
        """The error that ended the stream, to be raised after the pieces returned."""
        self.is_over = False
        """Whether the answer is complete."""

    def feed(self, chunk: bytes) -> list[GenerationChunk]:
        """Return the pieces of a chunk of the body; raise `fault`, if set, after them."""
        pieces: list[GenerationChunk] = []
        payloads = self._lines(chunk) if self._by_line else self._events(chunk)
        try:
            for name, data in payloads:
                if self.is_over:
                    break
                pieces += self._payload(name, data)
        except FoldlineError as error:
            self.fault = error
        if self.fault is None and not self._by_line:
            self.fault = self._sse.error
        return pieces

    def end(self) -> list[GenerationChunk]:
        """Return the last pieces: the body has ended, perhaps without a newline."""
        line, self._line = b"".join(self._line), []
        pieces = self._payload("", line) if line.strip() and not self.is_over else []
        self.is_over = self.is_over or self._decoder.is_stopped
        return pieces

    def _payload(self, name: str, data: str | bytes) -> list[GenerationChunk]:
        if data in ("[DONE]", b"[DONE]"):
            self.is_over = True
            return []
        piece = guarded(self._malformed, self._decoder.feed, self._parse(data), name)
        self.is_over = self._decoder.is_complete
        return [] if piece is None else [piece]

    def _events(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        for name, data, _ in self._sse.feed(chunk):
            if data.strip():
                yield name, data.strip()

    def _lines(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        first, *others = chunk.split(b"\n")
        self._line.append(first)
        self._line_size += len(first)
        if others:
            lines = [b"".join(self._line), *others]
            self._line = [lines.pop()]
            self._line_size = len(self._line[0])
            for line in lines:
                if line.strip():
                    yield "", line
        if self._line_size > self._max_line:
            raise LimitExceededError(f"a line of the stream is longer than {self._max_line} bytes")
