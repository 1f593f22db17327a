"""Sockets of httpx2's engine that read while a large request is written, so that an early answer is not lost.

The engine for async calls reads nothing before the whole request is written. A server that refuses a large body
answers and closes; the write then fails, and the answer that waits in the socket is thrown away with it.
"""

from __future__ import annotations

import math
import ssl
import time
from collections import deque
from typing import Any, Final

import anyio
import anyio.lowlevel
import httpcore2

__all__ = ["DuplexBackend", "seconds_until"]

SENT_AT_ONCE: Final = 128 * 1024
"""Bytes that are written without a look at what the server says meanwhile."""
PIECE: Final = 64 * 1024
REFUSALS: Final = (b"3", b"4", b"5")
"""First digits of the statuses that ask for no more of a request."""


class DuplexStream(httpcore2.AsyncNetworkStream):
    """A socket that is read while a large piece is written to it."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream, connect_by: float = math.inf) -> None:
        self._inner = inner
        self._connect_by = connect_by
        """When the connection must be ready, TLS included, by `time.monotonic`."""
        self._received: deque[bytes] = deque()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what arrived during a write, or what arrives next."""
        if not self._received:
            return await self._inner.read(max_bytes, timeout)
        piece = self._received.popleft()
        if len(piece) > max_bytes:
            self._received.appendleft(piece[max_bytes:])
        return piece[:max_bytes]

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write everything; an answer that refuses the request ends the writing with `WriteError`."""
        if len(buffer) <= SENT_AT_ONCE:
            await self._inner.write(buffer, timeout)
            return
        failure: Exception | None = httpcore2.WriteError("answered before the request was written")
        async with anyio.create_task_group() as group:
            group.start_soon(self._read_meanwhile, group.cancel_scope)
            await anyio.lowlevel.checkpoint()  # the reader waits before the first byte is written
            try:
                await self._inner.write(buffer, timeout)
                failure = None
            except Exception as error:
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def aclose(self) -> None:
        """Close the socket."""
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Agree on TLS."""
        left = seconds_until(self._connect_by, timeout)
        try:
            return DuplexStream(await self._inner.start_tls(ssl_context, server_hostname, left))
        except (
            BaseException
        ):  # the engine closes the socket for errors, not when the call is cancelled
            with anyio.CancelScope(shield=True):
                await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> object:
        """Return what is known of the socket."""
        return self._inner.get_extra_info(info)

    async def _read_meanwhile(self, writing: anyio.CancelScope) -> None:
        try:
            piece = await self._inner.read(PIECE)
        except httpcore2.NetworkError:
            return  # the write fails too, and says why
        if piece:
            self._received.append(piece)
            if piece.startswith(b"HTTP/1.") and piece[9:10] in REFUSALS:
                writing.cancel()


class DuplexBackend(httpcore2.AnyIOBackend):
    """Opens sockets that are read while they are written to."""

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore2.AsyncNetworkStream:
        """Connect."""
        connect_by = math.inf if timeout is None else time.monotonic() + timeout
        stream = await super().connect_tcp(host, port, timeout, *args, **options)
        return DuplexStream(stream, connect_by)


def seconds_until(moment: float, limit: float | None) -> float | None:
    """Return the seconds left until a moment, but no more than the limit."""
    if moment == math.inf:
        return limit
    left = max(moment - time.monotonic(), 0.001)
    return left if limit is None else min(left, limit)
