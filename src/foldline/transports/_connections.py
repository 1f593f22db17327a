"""Connections of httpx2's engine that count their calls: one at a time for blocking calls, many over HTTP/2 for async.

On an HTTP/2 connection of the engine, a blocking call waits for and fails with the calls of other threads. So a
blocking call has its own connection. A connection on which a call ended early accepts no further calls and is closed
after its last one. `_http2.py` has the rules of the protocol that the engine leaves out.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import anyio
import httpcore2

from foldline.transports._blocking import limit_briefly
from foldline.transports._duplex import PROXY_STEPS, seconds_until
from foldline.transports._engine_private import EngineHttp2

__all__ = ["CONNECTION", "AsyncConnection", "BlockingConnection"]

CONNECTION: Final = "foldline_connection"
"""The extension of a response with its connection, which is released when the response is closed."""
CONNECT_BY: Final = "foldline_connect_by"
"""The extension of a request with its time for connecting: the seconds, and the `time.monotonic` deadline."""
MAX_WAITING: Final = 100
"""Calls that wait for one connection to be made."""
IDLE_READ: Final = 0.02
"""Seconds for reading what has arrived on an idle connection."""
MAX_IDLE_READS: Final = 16
RESET_WRITE: Final = 0.05
"""Seconds to wait until the server is told that a call was left early; after that, it is told later."""


class ConnectionTrace:
    """Follows how a connection is made, by the engine's `trace` extension.

    Closes the socket if the handshake with a SOCKS proxy fails, because the engine does not.
    """

    def __init__(self, connection: CountedConnection) -> None:
        self._connection = connection
        self._stream: Any = None

    def on_event(self, name: str, info: dict[str, Any]) -> None:
        """Receive an event of a blocking call."""
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
        elif name == "http2.send_connection_init.started":
            self._connection.prepare_http2()
        elif name == "http11.send_request_headers.started":
            self._connection.note_ready()
        return name == "socks.setup_socks5_connection.failed"


class CountedConnection:
    """The base of blocking and async connections: counts the calls in progress."""

    _inner: httpcore2.ConnectionInterface | httpcore2.AsyncConnectionInterface

    def __init__(self, proxy: httpcore2.Proxy | None, origin: httpcore2.Origin) -> None:
        self._proxy_steps = _proxy_steps(proxy, origin)
        self._calls = 0
        self._is_retired = False
        """Whether it accepts no further calls, because one ended early on it or the server closes it."""
        self._state: Any = None
        """The `Http2State`, if it speaks HTTP/2."""
        self._http2: EngineHttp2 | None = None

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
        return not self._is_leaving() and self._inner.is_available()

    def has_expired(self) -> bool:
        """Whether it was idle for too long."""
        return self._inner.has_expired()

    def is_idle(self) -> bool:
        """Whether no call is in progress."""
        return self._inner.is_idle()

    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._inner.is_closed()

    def prepare_http2(self) -> None:
        """Replace the engine's state of an HTTP/2 connection, before anything is sent."""
        from foldline.transports._http2 import Http2State  # noqa: PLC0415  h2 is an extra

        self._state = Http2State(self.note_ready)
        self._http2 = EngineHttp2(self._inner)
        self._http2.set_state(self._state)

    def note_ready(self) -> None:
        """Receive that it is known how many calls the server accepts at a time."""

    def _is_leaving(self) -> bool:
        return self._is_retired or (self._state is not None and self._state.is_leaving)

    def _end_call(self, *, is_finished: bool) -> bool:
        """Remove one call from the count; return whether the connection must be closed."""
        self._calls -= 1
        self._is_retired = self._is_leaving() or not is_finished
        return self._is_retired and not self._calls

    def _idle_reads(self) -> Iterator[EngineHttp2]:
        """Yield the engine's HTTP/2 connection while data is to be read before the only call is sent.

        The engine does not look whether the server has closed an idle HTTP/2 connection, or announced that.
        """
        if self._http2 is None or self._calls > 1:
            return
        self._is_retired = True  # unless nothing but pings and settings has arrived
        for _ in range(MAX_IDLE_READS):
            if not self._http2.has_data:
                self._is_retired = self._state.is_leaving
                break
            yield self._http2
        if self._is_retired:
            raise httpcore2.ConnectionNotAvailable


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
            if self._calls or self._is_leaving():
                raise httpcore2.ConnectionNotAvailable
            self._calls += 1
        if self._state is None:
            request.extensions["trace"] = ConnectionTrace(self).on_event
        PROXY_STEPS.set(self._proxy_steps)
        try:
            self._read_idle(request)
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

    def _read_idle(self, request: httpcore2.Request) -> None:
        try:
            for http2 in self._idle_reads():
                with limit_briefly(IDLE_READ):
                    http2.receive(request)
        except httpcore2.ConnectionNotAvailable:
            raise
        except Exception as error:
            raise httpcore2.ConnectionNotAvailable from error


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
        self._is_started = False
        self._ready = asyncio.Event()
        self._waiting = 0
        """How many of the calls wait until it is ready."""

    def can_multiplex(self) -> bool:
        """Whether it supports several calls at a time."""
        return self._inner.can_multiplex()

    def is_available(self) -> bool:
        """Whether it accepts another call."""
        return self._calls < self._call_limit() and super().is_available()

    def note_ready(self) -> None:
        """Let the calls begin that wait for the first one to connect."""
        self._ready.set()

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Send a request."""
        if self._is_leaving():
            raise httpcore2.ConnectionNotAvailable
        self._calls += 1
        self._request = request
        is_sent = False
        is_first, self._is_started = not self._is_started, True
        try:
            await self._wait_until_ready(request, is_first=is_first)
            await self._read_idle(request)
            is_sent = True
            if self._state is None:
                request.extensions["trace"] = ConnectionTrace(self).on_async_event
            PROXY_STEPS.set(self._proxy_steps)
            response = await self._inner.handle_async_request(request)
        except BaseException as error:
            is_unused = not is_sent or isinstance(error, httpcore2.ConnectionNotAvailable)
            await self.release(is_finished=is_unused)
            raise
        finally:
            PROXY_STEPS.set(0)
            if is_first:
                self._ready.set()
        response.extensions[CONNECTION] = self
        return response

    async def release(self, *, is_finished: bool, stream_id: int | None = None) -> None:
        """End a call, before its response is closed."""
        if self._end_call(is_finished=is_finished):
            with anyio.CancelScope(shield=True):
                await self.aclose()
        elif not is_finished and self._http2 is not None:
            await self._tell_server(self._http2, stream_id)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._inner.aclose()

    def _call_limit(self) -> int:
        return MAX_WAITING if self._state is None else int(self._state.call_limit())

    async def _wait_until_ready(self, request: httpcore2.Request, *, is_first: bool) -> None:
        """Wait while the first call connects; it counts as connecting."""
        if self._ready.is_set():
            return
        timeouts, limit = request.extensions["timeout"], request.extensions["timeout"]["connect"]
        if limit is not None:
            start = (limit, time.monotonic() + limit)
            limit, connect_by = request.extensions.setdefault(CONNECT_BY, start)
            timeouts["connect"] = seconds_until(connect_by, limit)
        if is_first:
            return
        self._waiting += 1
        try:
            async with asyncio.timeout(timeouts["connect"]):
                await self._ready.wait()
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout from error
        finally:
            self._waiting -= 1
        if self._inner.is_closed():
            # The first call has not connected. The time for connecting goes on.
            raise httpcore2.ConnectionNotAvailable
        if self._is_leaving() or self._calls - self._waiting > self._call_limit():
            timeouts["connect"] = limit
            request.extensions.pop(CONNECT_BY, None)
            raise httpcore2.ConnectionNotAvailable

    async def _read_idle(self, request: httpcore2.Request) -> None:
        try:
            for http2 in self._idle_reads():
                with anyio.fail_after(IDLE_READ):
                    await http2.receive(request)
        except httpcore2.ConnectionNotAvailable:
            raise
        except Exception as error:
            raise httpcore2.ConnectionNotAvailable from error

    async def _tell_server(self, http2: EngineHttp2, stream_id: int | None) -> None:
        """Tell the server that nobody reads a call any more, while others go on. A failure is theirs to see."""
        self._state.abandon_all_except(http2.calls - {stream_id})
        with suppress(Exception), anyio.move_on_after(RESET_WRITE, shield=True):
            await http2.send(self._request)
