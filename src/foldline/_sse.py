"""Decodes bytes to server-sent events, by the WHATWG grammar. Pure: it reads no socket and knows no vendor.

The events do not depend on how the bytes are cut. Lines end at LF, CR or CRLF and nowhere else. An error after
events in the same slice is raised by the next call, so that those events are not lost.
"""

from __future__ import annotations

from typing import NamedTuple

from foldline.exceptions import LimitExceededError, MalformedStreamError, ModelError

__all__ = ["SSEDecoder", "SSEEvent"]

BOM = b"\xef\xbb\xbf"
FIELDS = (b"data:", b"event:", b"id:", b"retry:")


class SSEEvent(NamedTuple):
    """One event: its type (`message` by default), its data, the last id."""

    event: str
    data: str
    id: str


class SSEDecoder:
    """Decodes a stream slice by slice.

    ```python
    SSEDecoder().feed(b"data: hello\\n\\n")  # [SSEEvent(event="message", data="hello", id="")]
    ```
    """

    __slots__ = (
        "_data",
        "_event",
        "_id",
        "_is_fresh",
        "_line",
        "_line_size",
        "_max_event",
        "_max_line",
        "_size",
        "_skip_lf",
        "error",
    )

    def __init__(self, max_line: int = 32 << 20, max_event: int = 32 << 20) -> None:
        self._max_line = max_line
        self._max_event = max_event
        self._line: list[bytes] = []  # slices of the incomplete line
        self._line_size = 0
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id = ""
        self._is_fresh = True
        self._skip_lf = False
        self.error: ModelError | None = None
        """The error that the next call will raise; a caller that has handled the events may raise it now."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is pending: the bytes so far end with a complete event."""
        return not (self._line or self._data or self._event)

    @property
    def is_begun(self) -> bool:
        """Whether an event has begun and not ended; bytes that are not an event stream never begin one."""
        line = b"".join(self._line)
        begins = any(line.startswith(name) or name.startswith(line) for name in FIELDS)
        return bool(self._data or self._event or (line and begins))

    def feed(self, data: bytes) -> list[SSEEvent]:
        """Decode the next bytes and return the events they complete."""
        if self.error is not None:
            raise self.error
        if data[-2:] == b"\n\n" and data.find(b"\n") == len(data) - 2 and self._is_plain(data):
            self._is_fresh = False
            return [SSEEvent("message", data[6:-2].decode(), self._id)]
        if b"\r" in data or self._skip_lf:
            data = self._normalize_newlines(data)
        if b"\n" not in data:
            return self._buffer(data)
        if self._line:
            self._line.append(data)
            data = b"".join(self._line)
        lines = data.split(b"\n")
        incomplete_line = lines.pop()
        self._line = [incomplete_line] if incomplete_line else []
        self._line_size = len(incomplete_line)
        if self._is_fresh:
            self._is_fresh = False
            lines[0] = lines[0].removeprefix(BOM)
        return self._read(lines)

    def end(self) -> list[SSEEvent]:
        """End the stream; an event without its blank line is dropped."""
        if self.error is not None:
            raise self.error
        self._line, self._data, self._event = [], [], ""
        self._line_size = self._size = 0
        return []

    def _is_plain(self, data: bytes) -> bool:
        """Return whether this slice is the usual case: one complete small event of one line of ASCII."""
        return (
            data[:6] == b"data: "
            and not (self._line or self._data or self._event or self._skip_lf)
            and len(data) < 4096 <= self._max_line
            and self._max_event >= 4096
            and data.isascii()
            and b"\r" not in data
        )

    def _normalize_newlines(self, data: bytes) -> bytes:
        """Convert CR and CRLF to LF; a CR at the end ends the line now, and a following LF is skipped."""
        if not data:
            return data
        if self._skip_lf and data[0] == 10:
            data = data[1:]
            if not data:
                self._skip_lf = False
                return data
        self._skip_lf = data[-1] == 13
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _buffer(self, data: bytes) -> list[SSEEvent]:
        if data:
            self._line.append(bytes(data))
            self._line_size += len(data)
            if self._line_size > self._max_line:
                self._line = []
                return self._fail([], self._too_long())
        return []

    def _read(self, lines: list[bytes]) -> list[SSEEvent]:
        events: list[SSEEvent] = []
        try:
            for line in lines:
                if line[:6] == b"data: ":
                    self._add(line, 6)
                elif line:
                    self._field(line)
                elif self._data:
                    events.append(self._dispatch())
                else:
                    self._event = ""
            if self._line_size > self._max_line:
                self._line = []
                raise self._too_long()
        except UnicodeDecodeError as error:
            return self._fail(events, MalformedStreamError(f"event stream is not UTF-8: {error}"))
        except LimitExceededError as error:
            return self._fail(events, error)
        return events

    def _add(self, line: bytes, start: int) -> None:
        size = len(line)
        if size > self._max_line:
            raise self._too_long()
        self._size += size - start + 1
        if self._size > self._max_event + 1:  # the newline of the last line is not part of the data
            raise LimitExceededError(
                f"an event of the stream is larger than {self._max_event} bytes: "
                "a model takes larger ones with `limits=Limits(sse_event=...)`"
            )
        self._data.append(line[start:])

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._add(line, len(line) - len(value))
            return
        if len(line) > self._max_line:
            raise self._too_long()
        text = value.decode() if name.isascii() else line.decode()
        if name == b"event":
            self._event = text
        elif name == b"id" and "\0" not in text:
            self._id = text

    def _dispatch(self) -> SSEEvent:
        data = self._data
        text = (data[0] if len(data) == 1 else b"\n".join(data)).decode()
        event = SSEEvent(self._event or "message", text, self._id)
        self._data = []
        self._size = 0
        self._event = ""
        return event

    def _too_long(self) -> LimitExceededError:
        return LimitExceededError(
            f"a line of the event stream is longer than {self._max_line} bytes: "
            "a model takes longer ones with `limits=Limits(sse_line=...)`"
        )

    def _fail(self, events: list[SSEEvent], error: ModelError) -> list[SSEEvent]:
        """Store the error for the next call if there are events to return first."""
        self.error = error
        self._data = []
        if not events:
            raise error
        return events
