"""Bytes of an event stream -> our events: parse server-sent events, then JSON, then the vendor's format. Pure.

Events before a fault are yielded before it is raised, even if both were in one chunk of the body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from foldline._sse import SSEDecoder
from foldline.exceptions import FoldlineError
from foldline.protocol.events import Event
from foldline.providers._wire import (
    MALFORMED_PAYLOAD_ERRORS,
    Malformed,
    WireDecoder,
    guarded,
    malformed_payload,
)
from foldline.transports import SizeLimits

__all__ = ["Reading", "StreamReading"]


class Reading(Protocol):
    """Reads one stream chunk by chunk, in any framing."""

    @property
    def fault(self) -> Exception | None:
        """The error that ended the stream, to be raised after the events returned."""

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events of a chunk of the body; raise `fault`, if set, after them."""

    def end(self) -> list[Event]:
        """Return the last events: the body has ended."""


class StreamReading:
    """Reads one stream of server-sent events chunk by chunk."""

    __slots__ = (
        "_decoder",
        "_has_events",
        "_is_end",
        "_malformed",
        "_parse",
        "_sse",
        "fault",
        "is_over",
    )

    def __init__(
        self,
        decoder: WireDecoder,
        is_end: Callable[[str], bool],
        parse: Callable[[str], Any],
        malformed: Malformed,
        limits: SizeLimits,
    ) -> None:
        self._decoder = decoder
        self._is_end = is_end
        self._parse = parse
        self._malformed = malformed
        self._sse = SSEDecoder(limits.sse_line, limits.sse_event)
        self._has_events = False
        self.fault: Exception | None = None
        """The error that ended the stream, to be raised after the events returned."""
        self.is_over = False
        """Whether the answer is complete: by the vendor's end marker or its last event."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events of a chunk of the body; chunks after the end are ignored (F-S11).

        Events before a fault are returned; the caller raises `fault` after them.
        """
        batch: list[Event] = []
        if self.is_over:
            return batch
        try:
            for name, data, _ in self._sse.feed(chunk):
                if data:
                    batch += self._event(name, data)
                    if self.is_over:
                        return batch
        except FoldlineError as error:
            self.fault = error
        if self.fault is None and self._sse.error is not None:
            # Now, not with the next chunk: it may not come for a long time.
            self.fault = self._sse.error
        return batch

    def _event(self, name: str, data: str) -> list[Event]:
        """Decode one server-sent event."""
        self._has_events = True
        if self._is_end(data):
            self.is_over = True
            return guarded(self._malformed, self._decoder.end, marked=True)
        parsed = self._parse(data)
        try:
            events = self._decoder.feed(parsed, name)
        except FoldlineError:
            raise
        except MALFORMED_PAYLOAD_ERRORS as error:
            raise malformed_payload(self._malformed, error) from error
        if events and events[-1]["event"] == "message-finish":
            self.is_over = True
        return events

    def end(self) -> list[Event]:
        """Return the last events: the body has ended."""
        if self.is_over:
            return []
        if not self._has_events and not self._sse.is_begun:
            raise self._malformed("the answer is no event stream", is_retryable=True)
        self._sse.end()
        return guarded(self._malformed, self._decoder.end, marked=False)
