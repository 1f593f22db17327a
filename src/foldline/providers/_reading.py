"""Bytes of an event stream -> events of ours: server-sent events, JSON, the vendor's decoder, one after another. Pure.

Events that came before a fault are given before it is raised, also where both were in one piece of the body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from foldline._sse import SSEDecoder
from foldline.exceptions import FoldlineError
from foldline.protocol.events import Event
from foldline.providers._wire import ODD, Malformed, WireDecoder, guarded, malformed_payload
from foldline.transports import Limits

__all__ = ["Reading", "StreamReading"]


class Reading(Protocol):
    """One stream, read piece by piece, however its bytes are framed."""

    @property
    def fault(self) -> Exception | None:
        """Why the stream cannot be read on."""

    @property
    def is_over(self) -> bool:
        """Whether the answer has come to its end."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Take a piece of the body; the `fault`, if there is one, is to be raised after the events returned."""

    def end(self) -> list[Event]:
        """Finish: the body is over."""


class StreamReading:
    """One stream, read piece by piece."""

    __slots__ = (
        "_decoder",
        "_is_end",
        "_is_heard",
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
        limits: Limits,
    ) -> None:
        self._decoder = decoder
        self._is_end = is_end
        self._parse = parse
        self._malformed = malformed
        self._sse = SSEDecoder(limits.sse_line, limits.sse_event)
        self._is_heard = False
        self.fault: Exception | None = None
        """Why the stream cannot be read on."""
        self.is_over = False
        """Whether the answer has come to its end, by the vendor's marker or its last event."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Take a piece of the body; after the end nothing is heard any more (F-S11).

        Events that came before a fault are returned; the `fault` is to be raised after them.
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
            self.fault = (
                self._sse.error
            )  # now, and not when more comes: nothing may for a long time
        return batch

    def _event(self, name: str, data: str) -> list[Event]:
        """Decode one server-sent event."""
        self._is_heard = True
        if self._is_end(data):
            self.is_over = True
            return guarded(self._malformed, self._decoder.end, marked=True)
        parsed = self._parse(data)
        try:
            events = self._decoder.feed(parsed, name)
        except FoldlineError:
            raise
        except ODD as error:
            raise malformed_payload(self._malformed, error) from error
        if events and events[-1]["event"] == "message-finish":
            self.is_over = True
        return events

    def end(self) -> list[Event]:
        """The body is over."""
        if self.is_over:
            return []
        if not self._is_heard and not self._sse.is_begun:
            raise self._malformed("the answer is no event stream", is_retryable=True)
        self._sse.end()
        return guarded(self._malformed, self._decoder.end, marked=False)
