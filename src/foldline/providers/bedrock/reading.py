"""Bytes of an event stream of AWS -> events of ours: frames, JSON, the decoder, one after another. Pure.

Events that came before a fault are returned before it is raised, also where both were in one piece of the body.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

from foldline.exceptions import FoldlineError
from foldline.protocol.events import Event
from foldline.providers._wire import Fail, Malformed, WireDecoder, guarded, malformed_payload
from foldline.providers.bedrock.event_stream import MAX_PAYLOAD, EventStreamDecoder, Frame
from foldline.transports import Limits

__all__ = ["ChunkReading", "FrameReading"]


class FrameReading:
    """One stream, read piece by piece."""

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
        limits: Limits,
    ) -> None:
        self._decoder = decoder
        self._fail = fail
        self._parse = parse
        self._malformed = malformed
        self._frames = EventStreamDecoder(min(limits.sse_event, MAX_PAYLOAD))
        self._is_begun = False
        self.fault: Exception | None = None
        """Why the stream cannot be read on."""
        self.is_over: bool = False
        """Whether the answer has come to its end."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Take a piece of the body; after the end nothing is read any more.

        Events that came before a fault are returned; the `fault` is to be raised after them.
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
        """Return what a frame says, and the name of the event."""
        data = self._parse(frame.payload) if frame.payload.strip() else {}
        return data, frame.text_header(":event-type")

    def _exception(self, frame: Frame) -> dict[str, Any]:
        """Return an exception's fields; what is no JSON is its message."""
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
        """Finish: the body is over."""
        if self.is_over:
            return []
        if not self._is_begun:
            raise self._malformed("the answer is empty", is_retryable=True)
        return guarded(self._malformed, self._decoder.end, marked=False)


class ChunkReading(FrameReading):
    """A stream of InvokeModelWithResponseStream: each frame holds an event of the model's own API, in base64."""

    __slots__ = ()

    def _read_payload(self, frame: Frame) -> tuple[Any, str]:
        data, event = super()._read_payload(frame)
        if event != "chunk":
            return {}, event  # a kind of frame that is newer than this file
        try:
            inner = b64decode(data["bytes"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
            raise malformed_payload(self._malformed, error) from error
        parsed = self._parse(inner)
        kind = parsed.get("type") if isinstance(parsed, dict) else None
        return parsed, kind if isinstance(kind, str) else event
