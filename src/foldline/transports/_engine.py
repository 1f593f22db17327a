"""Additions to `httpcore2`, the engine of httpx2: deadlines, separate HTTP/2 calls, closing of SOCKS sockets.

On an HTTP/2 connection of the engine, a blocking call waits for and fails with the calls of other threads; and the
server is not told that a call ended early. So a blocking call has its own connection, and a connection on which a call
ended early accepts no further calls and is closed after its last one.
"""

from __future__ import annotations

import math
import socket
import ssl
import threading
import time
from typing import Any, Final

import anyio
import httpcore2
from httpcore2._backends.sync import (
    SyncStream,
)  # the only stream of the engine over an existing socket

from foldline.transports._connect import SOCKET_OPTIONS, connect_sync
from foldline.transports._duplex import (
    PROXY_STEPS,
    DuplexBackend,
    limit_connecting,
    seconds_until,
)
from foldline.transports._wait import Expired

__all__ = ["CONNECTION", "AsyncPool", "BlockingPool", "Secret", "limit_this_thread"]

CONNECTION: Final = "foldline_connection"
"""The extension of a response with its connection, which is released when the response is closed."""


class _Deadline(threading.local):
    at: float | None = None


_deadline = _Deadline()


def limit_this_thread(seconds: float | None) -> None:
    """Set the deadline of this thread's reads and writes."""
    _deadline.at = None if seconds is None else time.monotonic() + seconds


class DeadlineStream(httpcore2.NetworkStream):
    """A socket whose reads and writes end at the deadline of the calling thread."""

    def __init__(
        self,
        inner: httpcore2.NetworkStream,
        plain_socket: socket.socket | None,
        connect_by: float,
        proxy_steps: int,
    ) -> None:
        self._inner = inner
        self._plain_socket = plain_socket
        """The socket of `inner`, unless it already uses TLS."""
        self._connect_by = connect_by
        """The `time.monotonic` deadline of the connection, including TLS."""
        self.proxy_steps = proxy_steps
        """The remaining steps with a proxy; until they are done, the deadline of the connection holds."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read, until the deadline."""
        if self.proxy_steps:
            return self._read_of_proxy(max_bytes)
        return self._inner.read(max_bytes, self._remaining())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write, until the deadline."""
        self._inner.write(buffer, self._remaining())

    def close(self) -> None:
        """Close the socket."""
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        """Start TLS."""
        remaining = seconds_until(self._connect_by, timeout)
        if self._plain_socket is None:  # TLS inside TLS, through an https proxy
            return self._start_inner_tls(ssl_context, server_hostname, remaining)
        # In two steps: if a single call is interrupted, Python does not close the socket.
        secured = ssl_context.wrap_socket(
            self._plain_socket, server_hostname=server_hostname, do_handshake_on_connect=False
        )
        try:
            secured.settimeout(remaining)
            secured.do_handshake()
        except TimeoutError as error:
            secured.close()
            raise httpcore2.ConnectTimeout(str(error)) from error
        except OSError as error:
            secured.close()
            raise httpcore2.ConnectError(str(error)) from error
        except BaseException:
            secured.close()
            raise
        return self._after_step(SyncStream(secured))

    def _after_step(self, stream: httpcore2.NetworkStream) -> httpcore2.NetworkStream:
        return DeadlineStream(stream, None, self._connect_by, max(self.proxy_steps - 1, 0))

    def _read_of_proxy(self, max_bytes: int) -> bytes:
        """Read an answer of the proxy, which is part of connecting."""
        remaining = self._remaining()
        to_connect = seconds_until(self._connect_by, None)
        if to_connect is None or (remaining is not None and remaining <= to_connect):
            return self._inner.read(max_bytes, remaining)
        with limit_connecting():
            return self._inner.read(max_bytes, to_connect)

    def _start_inner_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None, timeout: float | None
    ) -> httpcore2.NetworkStream:
        try:
            return self._after_step(self._inner.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:
            self._inner.close()
            raise

    def get_extra_info(self, info: str) -> object:
        """Return information about the socket."""
        return self._inner.get_extra_info(info)

    def _remaining(self) -> float | None:
        if _deadline.at is None:
            return None
        seconds = _deadline.at - time.monotonic()
        if seconds <= 0:
            raise httpcore2.ReadTimeout
        return seconds


class DeadlineBackend(httpcore2.SyncBackend):
    """Opens sockets with deadlines like the native transport: the first address that answers, one time limit."""

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore2.NetworkStream:
        """Connect."""
        connect_by = math.inf if timeout is None else time.monotonic() + timeout
        try:
            connection = connect_sync(host, port, timeout)
        except Expired as error:
            raise httpcore2.ConnectTimeout from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        return DeadlineStream(SyncStream(connection), connection, connect_by, PROXY_STEPS.get())


class Secret(bytes):
    """Bytes that are masked in logs: the engine logs the password of a SOCKS proxy at level DEBUG."""

    def __repr__(self) -> str:
        return "***"


class SocksTrace:
    """Closes the socket if the handshake with a SOCKS proxy fails, because the engine does not; notes its end."""

    def __init__(self) -> None:
        self._stream: Any = None

    def on_event(self, name: str, info: dict[str, Any]) -> None:
        """Receive an event of a blocking call (the engine's `trace` extension)."""
        if self._is_failure(name, info):
            self._stream.close()

    async def on_async_event(self, name: str, info: dict[str, Any]) -> None:
        """Receive an event of an async call."""
        if self._is_failure(name, info):
            with anyio.CancelScope(shield=True):
                await self._stream.aclose()

    def _is_failure(self, name: str, info: dict[str, Any]) -> bool:
        if name == "socks.setup_socks5_connection.started":
            self._stream = info["stream"]
        elif name == "socks.setup_socks5_connection.complete":
            self._stream.proxy_steps -= 1
        return name == "socks.setup_socks5_connection.failed"


class CountedConnection:
    """The base of blocking and async connections: counts the calls in progress."""

    _inner: httpcore2.ConnectionInterface | httpcore2.AsyncConnectionInterface

    def __init__(self, proxy: httpcore2.Proxy | None, origin: httpcore2.Origin) -> None:
        self._is_socks = proxy is not None and proxy.url.scheme.startswith(b"socks")
        self._proxy_steps = _proxy_steps(proxy, origin)
        self._calls = 0
        self._is_retired = False
        """Whether a call ended early on it."""

    def can_handle_request(self, origin: httpcore2.Origin) -> bool:
        """Whether requests to this origin may be sent on it."""
        return self._inner.can_handle_request(origin)

    def info(self) -> str:
        """Return the engine's description of it."""
        return self._inner.info()

    def is_connected(self) -> bool:
        """Whether its socket is open."""
        return self._inner.is_connected()

    def is_available(self) -> bool:
        """Whether it accepts another call."""
        return not self._is_retired and self._inner.is_available()

    def has_expired(self) -> bool:
        """Whether it was idle for too long."""
        return self._inner.has_expired()

    def is_idle(self) -> bool:
        """Whether no call is in progress."""
        return self._inner.is_idle()

    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._inner.is_closed()

    def _end_call(self, *, is_finished: bool) -> bool:
        """Remove one call from the count; return whether the connection must be closed."""
        self._calls -= 1
        self._is_retired = self._is_retired or not is_finished
        return self._is_retired and not self._calls


def _proxy_steps(proxy: httpcore2.Proxy | None, origin: httpcore2.Origin) -> int:
    """Return the steps with a proxy before the first request: TLS with the proxy, then CONNECT or SOCKS."""
    if proxy is None or (origin.scheme == b"http" and not proxy.url.scheme.startswith(b"socks")):
        return 0
    return 2 if proxy.url.scheme == b"https" else 1


class BlockingConnection(CountedConnection, httpcore2.ConnectionInterface):
    """A connection for one blocking call at a time, also over HTTP/2."""

    def __init__(
        self,
        inner: httpcore2.ConnectionInterface,
        proxy: httpcore2.Proxy | None,
        origin: httpcore2.Origin,
    ) -> None:
        super().__init__(proxy, origin)
        self._inner: httpcore2.ConnectionInterface = inner
        self._lock = threading.Lock()

    def is_available(self) -> bool:
        """Whether it accepts a call: only if none is in progress."""
        return not self._calls and super().is_available()

    def handle_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Send a request."""
        with self._lock:
            if self._calls or self._is_retired:
                raise httpcore2.ConnectionNotAvailable
            self._calls += 1
        if self._is_socks:
            request.extensions["trace"] = SocksTrace().on_event
        PROXY_STEPS.set(self._proxy_steps)
        try:
            response = self._inner.handle_request(request)
        except BaseException as error:
            self.release(is_finished=isinstance(error, httpcore2.ConnectionNotAvailable))
            raise
        finally:
            PROXY_STEPS.set(0)
        response.extensions[CONNECTION] = self
        return response

    def release(self, *, is_finished: bool) -> None:
        """End a call, before its response is closed."""
        if self._end_call(is_finished=is_finished):
            self.close()

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()


class AsyncConnection(CountedConnection, httpcore2.AsyncConnectionInterface):
    """A connection for the calls of one event loop, many at a time over HTTP/2."""

    def __init__(
        self,
        inner: httpcore2.AsyncConnectionInterface,
        proxy: httpcore2.Proxy | None,
        origin: httpcore2.Origin,
    ) -> None:
        super().__init__(proxy, origin)
        self._inner: httpcore2.AsyncConnectionInterface = inner

    def can_multiplex(self) -> bool:
        """Whether it supports several calls at a time."""
        return self._inner.can_multiplex()

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Send a request."""
        if self._is_retired:
            raise httpcore2.ConnectionNotAvailable
        self._calls += 1
        if self._is_socks:
            request.extensions["trace"] = SocksTrace().on_async_event
        PROXY_STEPS.set(self._proxy_steps)
        try:
            response = await self._inner.handle_async_request(request)
        except BaseException as error:
            await self.release(is_finished=isinstance(error, httpcore2.ConnectionNotAvailable))
            raise
        finally:
            PROXY_STEPS.set(0)
        response.extensions[CONNECTION] = self
        return response

    async def release(self, *, is_finished: bool) -> None:
        """End a call, before its response is closed."""
        if self._end_call(is_finished=is_finished):
            with anyio.CancelScope(shield=True):
                await self.aclose()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._inner.aclose()


class BlockingPool(httpcore2.ConnectionPool):
    """The connections of blocking calls."""

    def __init__(self, proxy: httpcore2.Proxy | None, **settings: Any) -> None:
        super().__init__(proxy=proxy, network_backend=DeadlineBackend(), **settings)
        self._connection_proxy = proxy

    def create_connection(self, origin: httpcore2.Origin) -> httpcore2.ConnectionInterface:
        """Return a new connection."""
        return BlockingConnection(super().create_connection(origin), self._connection_proxy, origin)


class AsyncPool(httpcore2.AsyncConnectionPool):
    """The connections of one event loop."""

    def __init__(self, proxy: httpcore2.Proxy | None, **settings: Any) -> None:
        super().__init__(
            proxy=proxy, network_backend=DuplexBackend(), socket_options=SOCKET_OPTIONS, **settings
        )
        self._connection_proxy = proxy

    def create_connection(self, origin: httpcore2.Origin) -> httpcore2.AsyncConnectionInterface:
        """Return a new connection."""
        return AsyncConnection(super().create_connection(origin), self._connection_proxy, origin)
