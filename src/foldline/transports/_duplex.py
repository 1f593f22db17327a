"""Sockets of httpx2's engine for async calls: read while a large request is written, one limit for connecting.

The engine for async calls reads nothing before the entire request is written. A server that refuses a large body
answers and closes the connection; then the write fails, and the answer in the socket would be lost.

The engine does not limit how long a proxy takes for its part of connecting (CONNECT, the SOCKS handshake).
"""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

import anyio
import anyio.lowlevel
import httpcore2

from foldline.transports._connect import SOCKET_OPTIONS
from foldline.transports._http1 import HEAD_END

__all__ = ["PROXY_STEPS", "DuplexBackend", "limit_connecting", "seconds_until", "speaks_http2"]

PROXY_STEPS: ContextVar[int] = ContextVar("PROXY_STEPS", default=0)
"""The steps with a proxy that a connection needs before its first request: each ends with TLS or a SOCKS handshake."""

SIMPLE_WRITE_SIZE: Final = 128 * 1024
"""Up to this many bytes are written without reading at the same time."""
READ_SIZE: Final = 64 * 1024
MAX_READ_AHEAD: Final = 256 * 1024
"""Bytes of an answer that are read while the request is written."""
READ_AHEAD_TIME: Final = 0.01
READ_AHEAD_INTERVAL: Final = 0.02
MIN_BODY_WRITE: Final = 1024
"""Larger writes of HTTP/2 are parts of a body, which the server may refuse."""
REFUSAL_DIGITS: Final = (b"3", b"4", b"5")
"""First digits of the statuses after which the request need not be sent completely."""


class DuplexStream(httpcore2.AsyncNetworkStream):
    """A socket that is read while a large request is written to it."""

    def __init__(
        self, inner: httpcore2.AsyncNetworkStream, connect_by: float, proxy_steps: int
    ) -> None:
        self._inner = inner
        self._connect_by = connect_by
        """The `time.monotonic` deadline of the connection, including TLS."""
        self.proxy_steps = proxy_steps
        """The remaining steps with a proxy; until they are done, the deadline of the connection holds."""
        self._received: deque[bytes] = deque()
        self._is_http2 = speaks_http2(inner)
        self._reading = asyncio.Lock()
        self._unwritten = bytearray()
        """Data of all calls of an HTTP/2 connection that the task `_writing` has still to write."""
        self._writing: asyncio.Task[None] | None = None
        self._is_write_closed = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the data that arrived during a write, or the next data."""
        if self.proxy_steps:
            with limit_connecting():
                return await self._inner.read(max_bytes, seconds_until(self._connect_by, timeout))
        async with self._reading:
            if not self._received:
                return await self._inner.read(max_bytes, timeout)
        piece = self._received.popleft()
        if len(piece) > max_bytes:
            self._received.appendleft(piece[max_bytes:])
        return piece[:max_bytes]

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all data; raise `WriteError` if an answer refuses the request before that."""
        if self._is_http2:
            await self._write_for_all(buffer)
            return
        if len(buffer) <= SIMPLE_WRITE_SIZE:
            await self._inner.write(buffer, timeout)
            return
        failure: Exception | None = httpcore2.WriteError("answered before the request was written")
        async with anyio.create_task_group() as group:
            group.start_soon(self._read_meanwhile, group.cancel_scope)
            await anyio.lowlevel.checkpoint()  # start reading before the first byte is written
            try:
                await self._inner.write(buffer, timeout)
                failure = None
            except Exception as error:
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _write_for_all(self, buffer: bytes) -> None:
        """Write data of an HTTP/2 connection in a task of its own: a call that is cancelled must not cut a frame off.

        A failure is left to the next read: an answer may precede it.
        """
        if not buffer or self._is_write_closed:
            return
        self._unwritten += buffer
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())
        writing = self._writing
        if len(buffer) <= MIN_BODY_WRITE:
            await asyncio.wait({writing})  # a shield would pass on that `aclose` cancels the task
            return
        while not writing.done():
            await asyncio.wait({writing}, timeout=READ_AHEAD_INTERVAL)
            if not self._reading.locked():
                await self._read_ahead()

    async def _write_all(self) -> None:
        try:
            while self._unwritten:
                data, self._unwritten = bytes(self._unwritten), bytearray()
                await self._inner.write(data)
        except (httpcore2.WriteError, OSError):
            self._is_write_closed = True

    async def _read_ahead(self) -> None:
        """Keep an early answer, which could not be read any more after a write that fails."""
        if not self._is_readable():
            return
        async with self._reading:
            with suppress(httpcore2.NetworkError), anyio.move_on_after(READ_AHEAD_TIME):
                while sum(map(len, self._received)) < MAX_READ_AHEAD:
                    if not (piece := await self._inner.read(READ_SIZE)):
                        break
                    self._received.append(piece)

    def _is_readable(self) -> bool:
        """Whether something has arrived that nobody has read: in the socket, or in the buffers before it."""
        tls = getattr(self._inner, "_stream", None)
        buffers = (
            getattr(getattr(tls, "_read_bio", None), "pending", 0),
            getattr(
                getattr(getattr(tls, "transport_stream", None), "_protocol", None), "read_queue", ()
            ),
        )
        return any(buffers) or bool(self._inner.get_extra_info("is_readable"))

    async def aclose(self) -> None:
        """Close the socket."""
        if self._writing is not None:
            self._writing.cancel()
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Start TLS."""
        remaining = seconds_until(self._connect_by, timeout)
        try:
            secured = await self._inner.start_tls(ssl_context, server_hostname, remaining)
            return DuplexStream(secured, self._connect_by, max(self.proxy_steps - 1, 0))
        except BaseException:  # the engine closes the socket on errors, but not on cancellation
            with anyio.CancelScope(shield=True):
                await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> object:
        """Return information about the socket."""
        if info == "is_readable":
            return bool(self._received) or self._is_readable()
        return self._inner.get_extra_info(info)

    async def _read_meanwhile(self, writing: anyio.CancelScope) -> None:
        data = b""
        while len(data) < MAX_READ_AHEAD:
            try:
                piece = await self._inner.read(READ_SIZE)
            except httpcore2.NetworkError:
                return  # the write fails too, with the reason
            if not piece:
                return
            self._received.append(piece)
            data += piece
            if _is_refusal(data):
                writing.cancel()
                return


def _is_refusal(data: bytes) -> bool:
    """Whether this is the complete head of an answer after which the request need not be sent completely."""
    start = 0
    while (end := HEAD_END.search(data, start)) is not None:
        digit = data[start + 9 : start + 10]
        if digit != b"1":
            return data.startswith(b"HTTP/1.", start) and digit in REFUSAL_DIGITS
        start = end.end()  # an interim answer: the final one follows
    return False


class DuplexBackend(httpcore2.AnyIOBackend):
    """Opens sockets that are read while they are written to."""

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore2.AsyncNetworkStream:
        """Connect."""
        connect_by = math.inf if timeout is None else time.monotonic() + timeout
        # The engine passes the pool's socket options on for direct connections only.
        options["socket_options"] = SOCKET_OPTIONS
        stream = await super().connect_tcp(host, port, timeout, *args, **options)
        return DuplexStream(stream, connect_by, PROXY_STEPS.get())


def speaks_http2(stream: httpcore2.NetworkStream | httpcore2.AsyncNetworkStream) -> bool:
    """Whether the TLS handshake of a socket agreed on HTTP/2."""
    tls = stream.get_extra_info("ssl_object")
    return tls is not None and tls.selected_alpn_protocol() == "h2"


@contextmanager
def limit_connecting() -> Iterator[None]:
    """Turn a timeout into the one of the connection."""
    try:
        yield
    except httpcore2.TimeoutException as error:
        raise httpcore2.ConnectTimeout from error


def seconds_until(moment: float, limit: float | None) -> float | None:
    """Return the seconds until a moment, but at most the limit."""
    if moment == math.inf:
        return limit
    remaining = max(moment - time.monotonic(), 0.001)
    return remaining if limit is None else min(remaining, limit)
