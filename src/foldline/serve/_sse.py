"""Server-sent events: their encoding, and the response that sends them until the client disconnects."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final

from pydantic_core import PydanticSerializationError, to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from foldline._io.serving import CancelWhen
from foldline._io.timers import Timers
from foldline.workflows._run_events import jsonable

__all__ = [
    "PING",
    "RAW_SEND",
    "SendLimit",
    "SseResponse",
    "cancel_on_disconnect",
    "dump",
    "event",
    "one_line",
]

PING: Final = b": still here\n\n"
RAW_SEND: Final = "foldline.send"
"""The key in a request's scope for the `send` of the server, which Starlette has not wrapped."""
LOOKS: Final = 4
"""How often a stream is looked at in the time after which it is closed."""
HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


LINE_ENDS: Final = {"\u0085": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Characters at which some clients split lines, though the standard has only CR and LF."""
LINE_END: Final = re.compile("|".join(LINE_ENDS).encode())


def dump(value: object) -> bytes:
    """Write a value as JSON, on one line for every client."""
    try:
        data = to_json(value)
    except (PydanticSerializationError, UnicodeEncodeError, ValueError):
        data = to_json(_clean(jsonable(value)))
    return one_line(data)


def one_line(data: bytes) -> bytes:
    """Escape the characters of JSON at which clients may split lines."""
    if data.isascii() or LINE_END.search(data) is None:
        return data
    return LINE_END.sub(lambda match: LINE_ENDS[match[0].decode()].encode(), data)


def _clean(value: object) -> object:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(name): _clean(item) for name, item in value.items()}
    return value


def event(data: object, name: str | None = None, id: int | str | None = None) -> bytes:
    """Write one event."""
    head = b""
    if id is not None:
        head += b"id: %s\n" % str(id).encode()
    if name is not None:
        head += b"event: %s\n" % name.encode()
    return head + b"data: " + dump(data) + b"\n\n"


class SseResponse(Response):
    """Sends events as they come, and calls `on_leave` where the client disconnects."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        *,
        headers: Mapping[str, str] | None = None,
        on_leave: Callable[[], Awaitable[None]] | None = None,
        status: int = 200,
    ) -> None:
        self.status_code = status
        self.background = None
        self.body = b""
        self.on_close: Callable[[], None] | None = None
        """Called when the stream has ended, in any way."""
        self.send_limit: SendLimit | None = None
        self._pieces = pieces
        self._on_leave = on_leave
        self.init_headers({**HEADERS, **(headers or {})})
        # The length of a stream is not known.
        self.raw_headers = [item for item in self.raw_headers if item[0] != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await self._send(receive, send, scope.get(RAW_SEND, send))
        finally:
            if self.on_close is not None:
                self.on_close()

    async def discard(self) -> None:
        """Close a stream that will not be sent, as if the client had disconnected."""
        await self._pieces.aclose()
        if self._on_leave is not None:
            await self._on_leave()

    async def _send(self, receive: Receive, send: Send, send_piece: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        is_broken = False
        limit = self.send_limit
        async with cancel_on_disconnect(receive) as watch:
            if limit is not None:
                limit.start(lambda: _close_connection(send_piece, watch))
            try:
                async with aclosing(self._pieces) as pieces:
                    async for piece in pieces:
                        if limit is not None:
                            limit.is_sending = True
                        await send_piece(
                            {"type": "http.response.body", "body": piece, "more_body": True}
                        )
                        if limit is not None:
                            limit.note_sent()
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except OSError:  # the connection broke during a write
                is_broken = True
            finally:
                if limit is not None:
                    limit.stop()
        if (watch.has_fired or is_broken) and self._on_leave is not None:
            await self._on_leave()


class SendLimit:
    """Calls back when a piece of a stream was not taken for some seconds."""

    def __init__(self, timers: Timers, seconds: float) -> None:
        self.is_sending = False
        self._timers = timers
        self._seconds = seconds
        self._looks = 0
        """How often the same piece was found waiting."""
        self._number = 0

    def start(self, on_timeout: Callable[[], object]) -> None:
        """Look at the stream from time to time."""
        self._on_timeout = on_timeout
        self._number = self._timers.add(self._seconds / LOOKS, self._look)

    def note_sent(self) -> None:
        """Record that the reader took a piece."""
        self.is_sending = False
        self._looks = 0

    def stop(self) -> None:
        """Look no more."""
        self._timers.remove(self._number)

    def _look(self) -> None:
        self._looks = self._looks + 1 if self.is_sending else 0
        if self._looks > LOOKS:
            self._on_timeout()
        else:
            self.start(self._on_timeout)


def _close_connection(send: Send, watch: CancelWhen) -> None:
    """Close the connection to a reader that takes nothing; what it has not read is lost to it, and in the log."""
    # uvicorn's request has the connection. To leave it to the end of the answer would wait for the reader.
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
    else:
        watch.fire()


def cancel_on_disconnect(receive: Receive) -> CancelWhen:
    """Return a context that cancels its body when the client disconnects."""

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    return CancelWhen(wait_for_disconnect)
