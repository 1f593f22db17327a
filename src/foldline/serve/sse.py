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
from foldline.workflows.events import jsonable

__all__ = ["PING", "SseResponse", "cancel_on_disconnect", "dump", "event"]

PING: Final = b": still here\n\n"
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
        self._pieces = pieces
        self._on_leave = on_leave
        self.init_headers({**HEADERS, **(headers or {})})
        # The length of a stream is not known.
        self.raw_headers = [item for item in self.raw_headers if item[0] != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await self._send(receive, send)
        finally:
            if self.on_close is not None:
                self.on_close()

    async def discard(self) -> None:
        """Close a stream that will not be sent, as if the client had disconnected."""
        await self._pieces.aclose()
        if self._on_leave is not None:
            await self._on_leave()

    async def _send(self, receive: Receive, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        is_broken = False
        async with cancel_on_disconnect(receive) as watch:
            try:
                async with aclosing(self._pieces) as pieces:
                    async for piece in pieces:
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except OSError:  # the connection broke during a write
                is_broken = True
        if (watch.has_fired or is_broken) and self._on_leave is not None:
            await self._on_leave()


def cancel_on_disconnect(receive: Receive) -> CancelWhen:
    """Return a context that cancels its body when the client disconnects."""

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    return CancelWhen(wait_for_disconnect)
