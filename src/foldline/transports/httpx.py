"""The transport on `httpx2` (its engine `httpcore2`): pure Python, for HTTP/2, https and SOCKS proxies.

The engine is used without httpx2's client: foldline follows no redirects, stores no cookies, reads the environment
itself, and needs features that the client does not have (`_engine.py`).
"""

from __future__ import annotations

import os
import ssl
import threading
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit

from foldline.exceptions import MissingExtraError, ModelConnectionError, ModelError
from foldline.transports import _faults
from foldline.transports._body import Exchange, ResponseContext
from foldline.transports._loops import PerLoop
from foldline.transports._proxy_environment import proxy_for, split_proxy
from foldline.transports._tls import Tls
from foldline.transports._wait import Alarm, Expired
from foldline.transports.base import (
    HttpOptions,
    Request,
    check_header,
    refuse_address,
    with_option_headers,
)

try:
    import httpcore2

    from foldline.transports import _engine
except ImportError as error:
    raise MissingExtraError(
        "HTTP/2, https and SOCKS proxies (HttpxTransport) need the package httpx2: "
        'pip install "foldline[httpx]"'
    ) from error

__all__ = ["HttpxTransport"]

HTTP2_HEADER_LIMIT = 64 * 1024
"""The bytes of headers that the engine accepts over HTTP/2, for any `Limits.headers`."""


class HttpxTransport:
    """Sends requests with `httpx2`'s engine; `pip install "foldline[httpx]"`.

    ```python
    transport = HttpxTransport(HttpOptions(http2=True))
    ```
    """

    def __init__(self, options: HttpOptions | None = None) -> None:
        self.options: HttpOptions = options or HttpOptions()
        for name, value in self.options.headers.items():
            check_header(name, value)
        if self.options.http2 and find_spec("h2") is None:
            raise _missing("h2", "HTTP/2")
        if self.options.proxy is not None:
            _split_proxy(self.options.proxy)
        self._tls = Tls(self.options)
        self._proxy_tls = Tls(replace(self.options, http2=False))
        """A separate context, because the engine changes its offered protocols before each handshake."""
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._pools: dict[tuple[int, str | None], httpcore2.ConnectionPool] = {}
        self._per_loop: PerLoop[dict[str | None, httpcore2.AsyncConnectionPool]] = PerLoop(
            dict, _close_pools
        )

    def __repr__(self) -> str:
        return f"HttpxTransport({self.options!r})"

    def open(self, request: Request, *, blocking: bool) -> ResponseContext:
        """Send a request; leaving the context releases the connection immediately."""
        refuse_address(request, type(self).__name__)
        request = with_option_headers(request, self.options)
        return ResponseContext(request, partial(self.begin, blocking=blocking))

    def close(self) -> None:
        """Close idle connections of sync calls; the transport can still be used."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for (process, _), pool in pools.items():
            if process == os.getpid():
                pool.close()

    async def aclose(self) -> None:
        """Close idle connections, including those of this event loop; the transport can still be used."""
        self.close()
        await self._per_loop.drop()

    def begin(self, request: Request, *, blocking: bool) -> Exchange:
        """Start a request, for `ResponseContext`."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
            self._tls.after_fork()
            self._proxy_tls.after_fork()
        if blocking:
            return HttpxExchange(request, self._message(request), self._pool(request), self)
        return AsyncHttpxExchange(request, self._message(request), self)

    def _message(self, request: Request) -> dict[str, Any]:
        options = self.options
        headers = {
            "host": urlsplit(request.url).netloc,
            "accept": "*/*",
            "accept-encoding": "gzip, deflate" if options.compression else "identity",
            "user-agent": "foldline",
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

    def _settings(
        self, tls: ssl.SSLContext, proxy: str | None, proxy_tls: ssl.SSLContext | None
    ) -> dict[str, Any]:
        return {
            "ssl_context": tls,
            "proxy": None if proxy is None else _proxy(proxy, proxy_tls),
            "max_connections": self.options.max_connections,
            "keepalive_expiry": self.options.keep_alive,
            "http2": self.options.http2,
        }

    def _pool(self, request: Request) -> httpcore2.ConnectionPool:
        proxy = proxy_for(request.url, self.options)
        key = (os.getpid(), proxy)
        pool = self._pools.get(key)
        if pool is None:
            proxy_tls = self._proxy_tls.get() if _is_https(proxy) else None
            settings = self._settings(self._tls.get(), proxy, proxy_tls)
            with self._lock:
                pool = self._pools.get(key)
                if pool is None:
                    pool = _engine.BlockingPool(**settings)
                    self._pools[key] = pool
                    # Closed explicitly, also when the program ends.
                    weakref.finalize(self, _close_pool, pool, os.getpid())
        return pool

    async def async_pool(self, request: Request) -> httpcore2.AsyncConnectionPool:
        """Return the pool of the running loop."""
        pools = await self._per_loop.get()
        proxy = proxy_for(request.url, self.options)
        if proxy not in pools:
            proxy_tls = await self._proxy_tls.aget() if _is_https(proxy) else None
            settings = self._settings(await self._tls.aget(), proxy, proxy_tls)
            pools.setdefault(proxy, _engine.AsyncPool(**settings))
        return pools[proxy]


async def _close_pools(pools: dict[str | None, httpcore2.AsyncConnectionPool]) -> None:
    for pool in pools.values():
        await pool.aclose()


def _close_pool(pool: httpcore2.ConnectionPool, process: int) -> None:
    if process == os.getpid():  # a forked child must not close its parent's connections
        pool.close()


def _proxy(url: str, tls: ssl.SSLContext | None) -> httpcore2.Proxy:
    parts = _split_proxy(url)
    auth = (_secret(parts.username), _secret(parts.password)) if parts.username else None
    address = parts.netloc.rpartition("@")[2]
    return httpcore2.Proxy(f"{parts.scheme}://{address}", auth=auth, ssl_context=tls)


def _secret(text: str | None) -> _engine.Secret:
    return _engine.Secret(unquote(text or "").encode())


def _split_proxy(url: str) -> SplitResult:
    parts = split_proxy(url)
    if parts.scheme.startswith("socks") and find_spec("socksio") is None:
        raise _missing("socksio", "a SOCKS proxy")
    return parts


def _is_https(proxy: str | None) -> bool:
    return proxy is not None and proxy.startswith("https://")


def _missing(package: str, feature: str) -> MissingExtraError:
    """Return the error of an httpx2 that was installed without one of its extras."""
    return MissingExtraError(
        f'{feature} needs the package {package}: pip install "foldline[httpx]"'
    )


class HttpxExchange:
    """One request in progress in this thread."""

    def __init__(
        self,
        request: Request,
        message: dict[str, Any],
        pool: httpcore2.ConnectionPool,
        owner: HttpxTransport,
    ) -> None:
        self._request = request
        self._message = message
        self._pool = pool
        self._owner = owner  # a reference, because without it the pool is closed
        self._response: httpcore2.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    async def start(self, budget: float | None) -> tuple[int, Iterable[tuple[str, str]]]:
        """Send the request; return the status and headers."""
        _engine.limit_this_thread(budget)
        try:
            response = self._pool.handle_request(httpcore2.Request(**self._message))
        except Exception as error:
            failure = explain_start(self._request, error, self._message)
        else:
            self._response = response
            self._pieces = iter(cast("Iterable[bytes]", response.stream))
            return response.status, _pairs(response)
        raise failure

    async def read(self, budget: float | None) -> bytes | None:
        """Return the next raw data, or `None` at the end."""
        _engine.limit_this_thread(budget)
        try:
            return next(self._pieces, None)
        except Exception as error:
            failure = explain_read(self._request, error)
        raise failure

    def buffered_body(self) -> bytes | None:
        """Return None: the end is unknown before it is read."""
        return None

    async def close(self, *, finished: bool) -> None:
        """Release the connection."""
        if self._response is not None:
            self._response.extensions[_engine.CONNECTION].release(is_finished=finished)
            self._response.close()


class AsyncHttpxExchange:
    """One request in progress on the running loop."""

    def __init__(
        self, request: Request, message: dict[str, Any], transport: HttpxTransport
    ) -> None:
        self._request = request
        self._message = message
        self._transport = transport
        self._alarm: Alarm | None = None
        self._response: httpcore2.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None

    async def start(self, budget: float | None) -> tuple[int, Iterable[tuple[str, str]]]:
        """Send the request; return the status and headers."""
        pool = await self._transport.async_pool(self._request)
        self._alarm = Alarm()
        try:
            response_awaitable = pool.handle_async_request(httpcore2.Request(**self._message))
            response = await self._alarm.wait(response_awaitable, budget)
        except Expired:
            raise
        except Exception as error:
            failure = explain_start(self._request, error, self._message)
        else:
            self._response = response
            self._pieces = aiter(cast("AsyncIterator[bytes]", response.stream))
            return response.status, _pairs(response)
        raise failure

    async def read(self, budget: float | None) -> bytes | None:
        """Return the next raw data, or `None` at the end."""
        assert self._pieces is not None
        assert self._alarm is not None
        try:
            return await self._alarm.wait(cast("Any", anext(self._pieces)), budget)
        except Expired:
            raise
        except StopAsyncIteration:
            return None
        except Exception as error:
            failure = explain_read(self._request, error)
        raise failure

    def buffered_body(self) -> bytes | None:
        """Return None: the end is unknown before it is read."""
        return None

    async def close(self, *, finished: bool) -> None:
        """Release the connection."""
        if self._alarm is not None:
            self._alarm.stop()
        if self._response is not None:
            extensions = self._response.extensions
            await extensions[_engine.CONNECTION].release(
                is_finished=finished, stream_id=extensions.get("stream_id")
            )
            await self._response.aclose()


def _pairs(response: httpcore2.Response) -> list[tuple[str, str]]:
    return [
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name, value in response.headers
    ]


def explain_start(request: Request, error: Exception, message: dict[str, Any]) -> Exception:
    """Return foldline's error for a request that failed before the response's headers."""
    if isinstance(error, httpcore2.TimeoutException):
        return _explain_timeout(request, error, message)
    if (failure := _special_failure(request, error)) is not None:
        return failure
    text = _text_of(error)
    if isinstance(error, httpcore2.ProxyError):  # its text may contain the password of the proxy
        status = text[:3] if text[:3].isdecimal() else "what cannot be read"
        return _faults.not_reached(request, f"the proxy answered {status}")
    if not isinstance(error, httpcore2.RemoteProtocolError) or "disconnected" in text:
        return _chain(_faults.not_reached(request, text), error)
    if "too long" in text:
        return _faults.too_large(request, "the headers", request.limits.headers)
    return _faults.malformed(request, text)


def _explain_timeout(
    request: Request, error: httpcore2.TimeoutException, message: dict[str, Any]
) -> Exception:
    if isinstance(error, httpcore2.ConnectTimeout):
        return _faults.timed_out(request, "connect", request.timeouts.connect or 0.0)
    if isinstance(error, httpcore2.PoolTimeout):
        return _faults.timed_out(request, "pool", message["extensions"]["timeout"]["pool"])
    return Expired()


def explain_read(request: Request, error: Exception) -> Exception:
    """Return foldline's error for a body that ended early."""
    if isinstance(error, httpcore2.TimeoutException):
        return Expired()
    if (failure := _http2_failure(request, error)) is not None:
        is_reset = isinstance(failure, ModelConnectionError)
        return _faults.interrupted(request, error.args[0].reason) if is_reset else failure
    text = _text_of(error)
    if isinstance(error, httpcore2.RemoteProtocolError) and "chunk header" in text:
        return _faults.malformed(request, text)
    return _chain(_faults.interrupted(request, text), error)


def _special_failure(request: Request, error: Exception) -> Exception | None:
    if (certificate_error := _certificate_error(error)) is not None:
        return _chain(_faults.untrusted(request, certificate_error), error)
    return _http2_failure(request, error)


def _http2_failure(request: Request, error: Exception) -> ModelError | None:
    """Return foldline's error for an HTTP/2 call that ended with a `CallFailed` event."""
    event: Any = error.args[0] if error.args else None
    kind, reason = getattr(event, "kind", None), getattr(event, "reason", "")
    if kind is None:
        return None
    if kind == "malformed":
        return _faults.malformed(request, reason)
    if kind == "too_large":
        limit = min(request.limits.headers, HTTP2_HEADER_LIMIT)
        return _faults.too_large(request, "the headers", limit)
    failure = _faults.not_reached(request, reason)
    if kind == "http1_required":
        failure = _faults.not_reached(request, f"{reason}: call it with HttpOptions(http2=False)")
        failure.is_retryable = False
    return failure


def _text_of(error: Exception) -> str:
    if isinstance(error, httpcore2.NetworkError) and not str(error):
        return "the connection was closed"
    return str(error) or type(error).__name__


def _chain(failure: Exception, error: Exception) -> Exception:
    """Set the cause of an error, unless it quotes the server, which may repeat the key."""
    if not isinstance(error, httpcore2.RemoteProtocolError):
        failure.__cause__ = error
    return failure


def _certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error
