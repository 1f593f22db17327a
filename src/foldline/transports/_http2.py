"""The rules of HTTP/2 that `h2` and the engine of httpx2 leave out.

A server may announce that it closes a connection (GOAWAY) and still finish the calls on it; a call may end alone, by a
reset or by an answer that breaks the protocol; an answer may arrive before the request is sent completely; and the
window of a call that nobody reads must be returned. Every failure reaches each call as one `CallFailed` event, after
the data that arrived before it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import (
    DenialOfServiceError,
    InvalidBodyLengthError,
    NoAvailableStreamIDError,
    ProtocolError,
)
from h2.frame_buffer import FrameBuffer
from h2.settings import ChangedSetting, SettingCodes
from hpack import NeverIndexedHeaderTuple
from hyperframe.frame import DataFrame, Frame, GoAwayFrame

__all__ = ["MAX_CALLS", "CallFailed", "FailureKind", "Http2State"]

FailureKind = Literal["reset", "http1_required", "malformed", "too_large"]

MAX_CALLS: Final = 100
"""Calls that share a connection; fewer if the server says so."""
STREAM_WINDOW: Final = 2**20
"""Bytes of an answer that may arrive before they are read."""
CONNECTION_WINDOW: Final = 2**27
"""Enough for the windows of all calls of a connection, so that an answer that is not read does not delay the others."""
PUBLIC_HEADERS: Final = frozenset(
    {
        b":method",
        b":scheme",
        b":authority",
        b"accept",
        b"accept-encoding",
        b"content-type",
        b"user-agent",
    }
)
"""Headers that hold no key; `:path` may, in its query."""
STATUS = re.compile(rb"[2-5][0-9][0-9]")
HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
FORBIDDEN_IN_VALUE = re.compile(rb"[\0\n\v\f\r]")
MAX_NOTE: Final = 60
"""Longer explanations of the server are left out: in a shortened one, a part of a key would not be masked."""


class _Logs(threading.local):
    are_off = False


_logs = _Logs()


def _is_logged(_: logging.LogRecord) -> bool:
    return not _logs.are_off


for _logger_name in ("hpack.hpack", "hpack.table"):
    # At level DEBUG they log the headers of requests, which hold the key, as text and in their encoded form.
    logging.getLogger(_logger_name).addFilter(_is_logged)


@contextmanager
def _without_logs() -> Iterator[None]:
    """Log no headers of this thread, inside the block."""
    _logs.are_off = True
    try:
        yield
    finally:
        _logs.are_off = False


class CallFailed(StreamReset):
    """A call has failed. A `StreamReset`, because that is what the engine raises in the call concerned."""

    def __init__(self, stream_id: int, kind: FailureKind, reason: str) -> None:
        super().__init__(stream_id=stream_id, error_code=ErrorCodes.NO_ERROR)
        self.kind: FailureKind = kind
        self.reason = reason


class Http2State(H2Connection):
    """The state of one HTTP/2 connection."""

    def __init__(self, on_settings: Callable[[], object] = bool) -> None:
        # Names in upper case and the headers of HTTP/1 are sent by some servers and are harmless.
        super().__init__(H2Configuration(validate_inbound_headers=False))
        self.incoming_buffer = StrictFrameBuffer()
        self.is_leaving = False
        """Whether the connection accepts no further calls."""
        self._on_settings = on_settings
        self._has_settings = False
        self._unfinished: set[int] = set()
        """The calls whose answers have not ended."""
        self._refused: set[int] = set()
        """The calls whose answers make the rest of the request needless."""
        self._unread: dict[int, int] = {}
        """Call -> bytes that arrived and were not read; the server waits for them to be acknowledged."""
        self._parsed: list[Event] = []
        self._culprit = 0
        """The call whose frame broke the protocol, or 0."""

    def call_limit(self) -> int:
        """Return how many calls may share the connection."""
        return max(1, min(MAX_CALLS, self.remote_settings.max_concurrent_streams))

    def get_next_available_stream_id(self) -> int:
        """Return the number of the next call; raise if the connection accepts no further calls."""
        if self.is_leaving:
            raise NoAvailableStreamIDError
        return super().get_next_available_stream_id()

    def increment_flow_control_window(self, increment: int, stream_id: int | None = None) -> None:
        """Set the window; the engine's own increments let one call use the window of all."""
        increment = CONNECTION_WINDOW if stream_id is None else STREAM_WINDOW
        super().increment_flow_control_window(increment, stream_id)

    # Sending

    def send_headers(
        self, stream_id: int, headers: Iterable[Any], *args: Any, **options: Any
    ) -> None:
        """Begin a call. Values that may be keys are not stored in the header tables (RFC 7541, 7.1.3)."""
        marked = [
            (name, value) if name in PUBLIC_HEADERS else NeverIndexedHeaderTuple(name, value)
            for name, value in headers
        ]
        with _without_logs():
            super().send_headers(stream_id, marked, *args, **options)
        self._unfinished.add(stream_id)

    def local_flow_control_window(self, stream_id: int) -> int:
        """Return how much may be sent; a request that is not wanted any more does not wait for its window."""
        if self._is_unwanted(stream_id):
            return self.max_outbound_frame_size
        return super().local_flow_control_window(stream_id)

    def send_data(self, stream_id: int, *args: Any, **options: Any) -> None:
        """Send a part of the request, unless it is not wanted any more."""
        if not self._is_unwanted(stream_id):
            super().send_data(stream_id, *args, **options)

    def end_stream(self, stream_id: int) -> None:
        """End the request."""
        if not self._is_unwanted(stream_id):
            super().end_stream(stream_id)
        elif stream_id not in self._unfinished:
            self._reset(stream_id, ErrorCodes.CANCEL)

    def _is_unwanted(self, stream_id: int) -> bool:
        return stream_id in self._refused or stream_id not in self._unfinished

    # Receiving

    def receive_data(self, data: bytes) -> list[Event]:  # type: ignore[override]
        """Return the events of the received data; a failure is the last event of each call."""
        self._parsed, self._culprit = [], 0
        try:
            with _without_logs():
                super().receive_data(data)
        except ProtocolError as error:
            self.is_leaving = True
            self._parsed += self._fail_all(error)
        return _join_data(event for parsed in self._parsed for event in self._check(parsed))

    def acknowledge_received_data(self, acknowledged_size: int, stream_id: int) -> None:
        """Return a part of the window to the server."""
        super().acknowledge_received_data(acknowledged_size, stream_id)
        if (unread := self._unread.pop(stream_id, 0) - acknowledged_size) > 0:
            self._unread[stream_id] = unread

    def abandon_all_except(self, streams: Container[int]) -> None:
        """End the calls that nobody reads any more: tell the server and return their windows."""
        for stream in self._unfinished | self._unread.keys():
            if stream in streams:
                continue
            if unread := self._unread.get(stream):
                self.acknowledge_received_data(unread, stream)
            self._unfinished.discard(stream)
            self._refused.discard(stream)
            self._reset(stream, ErrorCodes.CANCEL)

    def _receive_frame(self, frame: Frame) -> list[Event]:
        try:
            events = super()._receive_frame(frame)
        except InvalidBodyLengthError as error:  # concerns this call only
            events = self._end_by_length(frame, error)
        except ProtocolError:
            self._culprit = frame.stream_id
            raise
        self._parsed += events  # kept if a later frame breaks the protocol
        return events

    def _end_by_length(self, frame: Frame, error: InvalidBodyLengthError) -> list[Event]:
        events: list[Event] = []
        if isinstance(frame, DataFrame):
            size = frame.flow_controlled_length
            data = bytes(frame.data)
            events.append(
                DataReceived(stream_id=frame.stream_id, data=data, flow_controlled_length=size)
            )
        is_short = error.actual_length < error.expected_length
        reason = f"its body has {error.actual_length} bytes, its content-length is {error.expected_length}"
        self._reset(frame.stream_id, ErrorCodes.PROTOCOL_ERROR)
        kind: FailureKind = "reset" if is_short else "malformed"
        return [*events, CallFailed(frame.stream_id, kind, reason)]

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        # h2 ends the connection here, although the server finishes the calls up to the last one it names.
        self.is_leaving = True
        note = bytes(frame.additional_data).decode("latin-1")
        if len(note) > MAX_NOTE:
            note = ""
        reason = f"it closes the connection ({_name(frame.error_code)}{note and ': '}{note})"
        unseen = {stream for stream in self._unfinished if stream > frame.last_stream_id}
        ends: list[Event] = [
            *self._fail(unseen, "reset", f"{reason} and has not processed the request")
        ]
        if frame.error_code != ErrorCodes.NO_ERROR:
            super()._receive_goaway_frame(frame)
            ends += self._fail(self._unfinished - unseen, _kind(frame.error_code), reason)
        return [], ends

    def _check(self, event: Event) -> Iterator[Event]:
        """Yield what an event means for its call."""
        if isinstance(event, RemoteSettingsChanged):
            self._check_settings(event)
            yield event
        elif isinstance(event, (ResponseReceived, DataReceived, StreamEnded, StreamReset)):
            yield from self._check_call(event)

    def _check_settings(self, event: RemoteSettingsChanged) -> None:
        """Add the number of calls to the first settings: the engine takes no number for one call at a time."""
        if not self._has_settings:
            code = SettingCodes.MAX_CONCURRENT_STREAMS
            event.changed_settings.setdefault(code, ChangedSetting(code, None, MAX_CALLS))
            self._has_settings = True
        self._on_settings()

    def _check_call(
        self, event: ResponseReceived | DataReceived | StreamEnded | StreamReset
    ) -> Iterator[Event]:
        stream = event.stream_id
        if isinstance(event, DataReceived) and not (event.data and stream in self._unfinished):
            # Without content: it must not pass for progress, nor be stored for a slow reader.
            super().acknowledge_received_data(event.flow_controlled_length or 0, stream)
        elif stream not in self._unfinished:
            return
        elif isinstance(event, DataReceived):
            size = event.flow_controlled_length or 0
            self._unread[stream] = self._unread.get(stream, 0) + size
            yield event
        elif isinstance(event, ResponseReceived):
            yield self._check_head(event)
        elif isinstance(event, StreamEnded):
            self._unfinished.discard(stream)
            if stream in self._refused:
                self._refused.discard(stream)
                self._reset(stream, ErrorCodes.CANCEL)
            yield event
        else:
            self._unfinished.discard(stream)
            self._refused.discard(stream)
            yield event if isinstance(event, CallFailed) else _as_failure(event)

    def _check_head(self, event: ResponseReceived) -> Event:
        """Return the event of the headers, or the failure of headers that break the protocol."""
        headers = [(bytes(name), bytes(value)) for name, value in event.headers or ()]
        if reason := _head_fault(headers):
            self._unfinished.discard(event.stream_id)
            self._reset(event.stream_id, ErrorCodes.PROTOCOL_ERROR)
            return CallFailed(event.stream_id, "malformed", reason)
        if headers[0][1] >= b"300":
            self._refused.add(event.stream_id)
        return event

    def _fail_all(self, error: ProtocolError) -> Iterator[CallFailed]:
        """Yield the failure of each call; those that did not cause it may be sent again."""
        kind, reason = _explain(error)
        guilty = self._unfinished & {self._culprit} or self._unfinished
        yield from self._fail(guilty, kind, reason)
        others = f"another call on the connection broke HTTP/2 ({reason})"
        yield from self._fail(self._unfinished - guilty, "reset", others)

    def _fail(self, streams: Iterable[int], kind: FailureKind, reason: str) -> Iterator[CallFailed]:
        for stream in sorted(streams):
            yield CallFailed(stream, kind, reason)

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        with suppress(ProtocolError):  # it has ended on both sides, or the connection has
            self.reset_stream(stream_id, code)


class StrictFrameBuffer(FrameBuffer):
    """Refuses a frame that is too long by its header: data that is not HTTP/2 at all looks like one."""

    def __next__(self) -> Frame:
        if len(self._data) >= 9:
            self._validate_frame_length(int.from_bytes(self._data[:3], "big"))
        return super().__next__()


def _join_data(events: Iterable[Event]) -> list[Event]:
    """Return the events with the data of each call joined: many small frames must not need much memory."""
    joined: list[Event] = []
    last_data: dict[int | None, DataReceived] = {}
    for event in events:
        stream = getattr(event, "stream_id", None)
        last = last_data.get(stream)
        if not isinstance(event, DataReceived):
            last_data.pop(stream, None)
        elif last is None:
            last_data[stream] = event
        else:
            last.data = bytes(last.data or b"") + bytes(event.data or b"")
            last.flow_controlled_length += event.flow_controlled_length
            continue
        joined.append(event)
    return joined


def _as_failure(event: StreamReset) -> CallFailed:
    """Return the failure of a call that the server has reset, or h2 because the server broke a rule."""
    code = event.error_code or 0
    if not event.remote_reset:
        return CallFailed(
            event.stream_id, "malformed", f"it broke a rule of HTTP/2 ({_name(code)})"
        )
    reason = f"it ended the call ({_name(code)})"
    if code == ErrorCodes.REFUSED_STREAM:
        reason += " and has not processed the request"
    return CallFailed(event.stream_id, _kind(code), reason)


def _kind(code: int) -> FailureKind:
    return "http1_required" if code == ErrorCodes.HTTP_1_1_REQUIRED else "reset"


def _name(code: int) -> str:
    try:
        return ErrorCodes(code).name
    except ValueError:
        return f"code {int(code)}"


def _explain(error: ProtocolError) -> tuple[FailureKind, str]:
    """Return the kind and reason of an error of h2."""
    text = str(error)
    if isinstance(error, DenialOfServiceError) or "continuation" in text:
        return "too_large", text
    return "malformed", text if " " in text else f"{type(error).__name__} {text}".rstrip()


def _head_fault(headers: list[tuple[bytes, bytes]]) -> str | None:
    """Return why these are not the headers of an answer. Their values are not shown: they may repeat the key."""
    if not headers or headers[0][0] != b":status" or not STATUS.fullmatch(headers[0][1]):
        return "the answer has no valid status"
    for name, value in headers[1:]:
        if HEADER_NAME.fullmatch(name) is None:
            return "a header has an invalid name"
        if FORBIDDEN_IN_VALUE.search(value):
            return f"the header {name.decode()!r} holds a line break or control character"
    return None
