"""The transport on `httpx2` (its engine `httpcore2`): pure Python, works in forked children, HTTP/2 with its extra.

The engine is used without the client on top: foldline follows no redirects, keeps no cookies and reads no environment,
and needs one thing the client does not offer, a read timeout that moves (the backend below).
"""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import partial
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from foldline.exceptions import MissingExtraError, UsageError
from foldline.transports import _faults
from foldline.transports._body import Exchange, Opening
from foldline.transports._loops import PerLoop
from foldline.transports._proxies import proxy_for
from foldline.transports._tls import Tls
from foldline.transports._wait import Alarm, Expired
from foldline.transports.base import HttpOptions, Request, check_header, refuse_address

try:
    import httpcore2
except ImportError as error:
    raise MissingExtraError(
        'the httpx transport needs the package httpx2: pip install "foldline[httpx]"'
    ) from error

__all__ = ["HttpxTransport"]


class HttpxTransport:
    """Sends requests with `httpx2`'s engine; `pip install "foldline[httpx]"`."""

    def __init__(self, options: HttpOptions | None = None) -> None:
        self.options = options or HttpOptions()
        for name, value in self.options.headers.items():
            check_header(name, value)
        self._tls = Tls(self.options)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._pools: dict[tuple[int, str | None], httpcore2.ConnectionPool] = {}
        self._per_loop: PerLoop[dict[str | None, httpcore2.AsyncConnectionPool]] = PerLoop(
            dict, _close_pools
        )

    def __repr__(self) -> str:
        return f"HttpxTransport({self.options!r})"

    def open(self, request: Request, *, blocking: bool) -> Opening:
        """Send a request; leaving the context frees the connection at once."""
        refuse_address(request, type(self).__name__)
        return Opening(request, partial(self._begin, blocking=blocking))

    def close(self) -> None:
        """Drop idle connections of blocking calls; the transport can still be used."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for (process, _), pool in pools.items():
            if process == os.getpid():
                pool.close()

    async def aclose(self) -> None:
        """Drop idle connections, those of this event loop included; the transport can still be used."""
        self.close()
        await self._per_loop.drop()

    def _begin(self, request: Request, *, blocking: bool) -> Exchange:
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
            self._tls.after_fork()
        if blocking:
            return BlockingExchange(request, self._message(request), self._pool(request))
        return AsyncExchange(request, self._message(request), self)

    def _message(self, request: Request) -> dict[str, Any]:
        options = self.options
        headers = {
            "host": urlsplit(request.url).netloc,
            "accept": "*/*",
            "accept-encoding": "gzip, deflate" if options.compression else "identity",
            "user-agent": "foldline",
            **{name.lower(): value for name, value in options.headers.items()},
            **{name.lower(): value for name, value in request.headers.items()},
        }
        if request.body or request.method not in ("GET", "HEAD", "DELETE"):
            headers["content-length"] = str(len(request.body))
        return {
            "method": request.method,
            "url": request.url,
            "headers": list(headers.items()),
            "content": request.body,
            "extensions": {
                "timeout": {"connect": request.timeouts.connect, "pool": options.pool_timeout}
            },
        }

    def _settings(self, proxy: str | None, tls: ssl.SSLContext) -> dict[str, Any]:
        return {
            "ssl_context": tls,
            "proxy": None if proxy is None else _proxy(proxy),
            "max_connections": self.options.max_connections,
            "keepalive_expiry": self.options.keep_alive,
            "http2": self.options.http2,
        }

    def _pool(self, request: Request) -> httpcore2.ConnectionPool:
        proxy = proxy_for(request.url, self.options)
        key = (os.getpid(), proxy)
        pool = self._pools.get(key)
        if pool is None:
            settings = self._settings(proxy, self._tls.get())
            with self._lock:
                pool = self._pools.get(key)
                if pool is None:
                    pool = httpcore2.ConnectionPool(network_backend=DeadlineBackend(), **settings)
                    self._pools[key] = pool
        return pool

    async def async_pool(self, request: Request) -> httpcore2.AsyncConnectionPool:
        """Give the pool of the running loop."""
        pools = await self._per_loop.get()
        proxy = proxy_for(request.url, self.options)
        if proxy not in pools:
            tls = await self._tls.aget()
            pools.setdefault(proxy, httpcore2.AsyncConnectionPool(**self._settings(proxy, tls)))
        return pools[proxy]


async def _close_pools(pools: dict[str | None, httpcore2.AsyncConnectionPool]) -> None:
    for pool in pools.values():
        await pool.aclose()


def _proxy(url: str) -> httpcore2.Proxy:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("HttpOptions(proxy=...): http://user:password@host:port")
    auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    port = f":{parts.port}" if parts.port else ""
    return httpcore2.Proxy(f"{parts.scheme}://{parts.hostname}{port}", auth=auth)


class _Deadline(threading.local):
    at: float | None = None


_deadline = _Deadline()


def _limit_this_thread(seconds: float | None) -> None:
    _deadline.at = None if seconds is None else time.monotonic() + seconds


class DeadlineStream(httpcore2.NetworkStream):
    """A socket whose reads and writes end at the deadline of the calling thread."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read, until the deadline."""
        return self._inner.read(max_bytes, self._left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write, until the deadline."""
        self._inner.write(buffer, self._left())

    def close(self) -> None:
        """Close the socket."""
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        """Agree on TLS."""
        return DeadlineStream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401  the engine's signature
        """Tell of the socket."""
        return self._inner.get_extra_info(info)

    def _left(self) -> float | None:
        if _deadline.at is None:
            return None
        left = _deadline.at - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout
        return left


class DeadlineBackend(httpcore2.SyncBackend):
    """Opens sockets that know deadlines."""

    def connect_tcp(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        """Connect."""
        return DeadlineStream(super().connect_tcp(*args, **options))


class BlockingExchange:
    """One request under way in this thread."""

    def __init__(
        self, request: Request, message: dict[str, Any], pool: httpcore2.ConnectionPool
    ) -> None:
        self._request = request
        self._message = message
        self._pool = pool
        self._response: httpcore2.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    async def start(self, budget: float | None) -> tuple[int, Iterable[tuple[str, str]]]:
        """Send, and give status and headers."""
        _limit_this_thread(budget)
        try:
            response = self._pool.handle_request(httpcore2.Request(**self._message))
        except Exception as error:
            raise explain_start(self._request, error, self._message) from error
        self._response = response
        self._pieces = iter(cast("Iterable[bytes]", response.stream))
        return response.status, _pairs(response)

    async def read(self, budget: float | None) -> bytes | None:
        """Give the next raw piece, or `None` at the end."""
        _limit_this_thread(budget)
        try:
            return next(self._pieces, None)
        except Exception as error:
            raise explain_read(self._request, error) from error

    def rest(self) -> bytes | None:
        """Nothing is known of the end before it is read."""
        return None

    async def close(self, *, finished: bool) -> None:
        """Free the connection."""
        if self._response is not None:
            self._response.close()


class AsyncExchange:
    """One request under way on the running loop."""

    def __init__(
        self, request: Request, message: dict[str, Any], transport: HttpxTransport
    ) -> None:
        self._request = request
        self._message = message
        self._transport = transport
        self._alarm = Alarm()
        self._response: httpcore2.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None

    async def start(self, budget: float | None) -> tuple[int, Iterable[tuple[str, str]]]:
        """Send, and give status and headers."""
        pool = await self._transport.async_pool(self._request)
        try:
            sending = pool.handle_async_request(httpcore2.Request(**self._message))
            response = await self._alarm.wait(sending, budget)
        except Expired:
            raise
        except Exception as error:
            raise explain_start(self._request, error, self._message) from error
        self._response = response
        self._pieces = aiter(cast("AsyncIterator[bytes]", response.stream))
        return response.status, _pairs(response)

    async def read(self, budget: float | None) -> bytes | None:
        """Give the next raw piece, or `None` at the end."""
        assert self._pieces is not None
        try:
            return await self._alarm.wait(cast("Any", anext(self._pieces)), budget)
        except Expired:
            raise
        except StopAsyncIteration:
            return None
        except Exception as error:
            raise explain_read(self._request, error) from error

    def rest(self) -> bytes | None:
        """Nothing is known of the end before it is read."""
        return None

    async def close(self, *, finished: bool) -> None:
        """Free the connection."""
        self._alarm.stop()
        if self._response is not None:
            await self._response.aclose()


def _pairs(response: httpcore2.Response) -> list[tuple[str, str]]:
    return [
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name, value in response.headers
    ]


def explain_start(request: Request, error: Exception, message: dict[str, Any]) -> Exception:
    """Say in foldline's words why no headers came."""
    if isinstance(error, httpcore2.ConnectTimeout):
        return _faults.timed_out(request, "connect", request.timeouts.connect or 0.0)
    if isinstance(error, httpcore2.PoolTimeout):
        limit = message["extensions"]["timeout"]["pool"]
        return _faults.timed_out(request, "pool", limit)
    if isinstance(error, httpcore2.TimeoutException):
        return Expired()
    text = str(error) or type(error).__name__
    if not isinstance(error, httpcore2.RemoteProtocolError) or "disconnected" in text:
        return _faults.not_reached(request, text)
    if "too long" in text:
        return _faults.too_large(request, "the headers", request.limits.headers)
    return _faults.malformed(request, text)


def explain_read(request: Request, error: Exception) -> Exception:
    """Say in foldline's words why the body broke off."""
    if isinstance(error, httpcore2.TimeoutException):
        return Expired()
    text = str(error) or type(error).__name__
    if isinstance(error, httpcore2.RemoteProtocolError) and "chunk header" in text:
        return _faults.malformed(request, text)
    return _faults.interrupted(request, text)
