"""Bytes of an AWS event stream -> our events: parse frames, then JSON, then the vendor's format. Pure.

Events before a fault are returned before it is raised, even if both were in one chunk of the body.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

from foldline.exceptions import FoldlineError
from foldline.protocol.events import Event
from foldline.providers._wire import Fail, Malformed, WireDecoder, guarded, malformed_payload
from foldline.providers.bedrock._event_stream import MAX_PAYLOAD, EventStreamDecoder, Frame
from foldline.transports import SizeLimits

__all__ = ["ChunkReading", "FrameReading"]


class FrameReading:
    """Reads one stream of frames chunk by chunk."""

    __slots__ = (
        "_decoder",
        "_fail",
        "_frames",
        "_is_begun",
        "_malformed",
        "_parse",
        "fault",
        "is_over",
    )

    def __init__(
        self,
        decoder: WireDecoder,
        fail: Fail,
        parse: Callable[[bytes], Any],
        malformed: Malformed,
        limits: SizeLimits,
    ) -> None:
        self._decoder = decoder
        self._fail = fail
        self._parse = parse
        self._malformed = malformed
        self._frames = EventStreamDecoder(min(limits.sse_event, MAX_PAYLOAD))
        self._is_begun = False
        self.fault: Exception | None = None
        """The error that ended the stream, to be raised after the events returned."""
        self.is_over: bool = False
        """Whether the answer is complete."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events of a chunk of the body; chunks after the end are ignored.

        Events before a fault are returned; the caller raises `fault` after them.
        """
        batch: list[Event] = []
        if self.is_over:
            return batch
        self._is_begun = self._is_begun or bool(chunk)
        try:
            for frame in self._frames.feed(chunk):
                batch += self._read_frame(frame)
                if self.is_over:
                    return batch
        except FoldlineError as error:
            self.fault = error
        if self.fault is None:
            self.fault = self._frames.error
        return batch

    def _read_frame(self, frame: Frame) -> list[Event]:
        kind = frame.text_header(":message-type")
        if kind == "exception":
            raise self._fail(self._exception(frame))
        if kind == "error":
            code, message = frame.text_header(":error-code"), frame.text_header(":error-message")
            raise self._fail({"type": code, "message": message})
        data, event = self._read_payload(frame)
        events = guarded(self._malformed, self._decoder.feed, data, event)
        self.is_over = bool(events) and events[-1]["event"] == "message-finish"
        return events

    def _read_payload(self, frame: Frame) -> tuple[Any, str]:
        """Return the JSON of a frame, and the name of its event."""
        data = self._parse(frame.payload) if frame.payload.strip() else {}
        return data, frame.text_header(":event-type")

    def _exception(self, frame: Frame) -> dict[str, Any]:
        """Return the fields of an exception; a payload that is not JSON is its message."""
        name = frame.text_header(":exception-type")
        try:
            body = self._parse(frame.payload)
        except FoldlineError:
            body = frame.payload.decode("utf-8", "replace")
        return (
            {**body, "type": name}
            if isinstance(body, dict)
            else {"type": name, "message": str(body)}
        )

    def end(self) -> list[Event]:
        """Return the last events: the body has ended."""
        if self.is_over:
            return []
        if not self._is_begun:
            raise self._malformed("the answer is empty", is_retryable=True)
        return guarded(self._malformed, self._decoder.end, marked=False)


class ChunkReading(FrameReading):
    """Reads a stream of InvokeModelWithResponseStream: each frame contains an event of the model's API, in base64."""

    __slots__ = ()

    def _read_payload(self, frame: Frame) -> tuple[Any, str]:
        data, event = super()._read_payload(frame)
        if event != "chunk":
            return {}, event  # an unknown kind of frame
        try:
            inner = b64decode(data["bytes"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
            raise malformed_payload(self._malformed, error) from error
        parsed = self._parse(inner)
        kind = parsed.get("type") if isinstance(parsed, dict) else None
        return parsed, kind if isinstance(kind, str) else event
