"""The default transport, on Python's sockets and event loop: HTTP/1.1, without dependencies.

It exists for its speed (see docs/transports.md) and because sync and async share one body. HTTP/2, https and SOCKS
proxies are in `foldline.transports.httpx.HttpxTransport`.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from foldline.exceptions import UsageError
from foldline.transports._body import Exchange, ResponseContext
from foldline.transports._exchange import AsyncExchange, BlockingExchange
from foldline.transports._http1 import proxy_authorization, with_body, write_head
from foldline.transports._loops import PerLoop
from foldline.transports._pool import Pool
from foldline.transports._proxy_environment import proxy_for, split_proxy
from foldline.transports._route import ProxyRoute
from foldline.transports._steps import LoopConnections, SharedConnections
from foldline.transports._tls import Tls
from foldline.transports._wires import BlockingWire
from foldline.transports.base import HttpOptions, Request, check_header, with_option_headers

if TYPE_CHECKING:  # an extra
    from foldline.transports.httpx import HttpxTransport

__all__ = ["NativeTransport"]


RenderedHead = tuple[ProxyRoute, str, Mapping[str, str], str, bytes]
"""ProxyRoute, URL, headers and method of a request, and its encoded head."""


class NativeTransport:
    """Sends requests over Python's sockets.

    ```python
    transport = NativeTransport(HttpOptions(proxy="http://proxy.example:3128"))
    ```
    """

    def __init__(self, options: HttpOptions | None = None) -> None:
        self.options: HttpOptions = options or HttpOptions()
        if self.options.http2:
            raise UsageError(
                "NativeTransport speaks HTTP/1.1: use foldline.transports.httpx.HttpxTransport "
                "for http2=True"
            )
        if self.options.proxy is not None:
            split_proxy(self.options.proxy)
        for name, value in self.options.headers.items():
            check_header(name, value)
        self._headers = {
            "accept": "*/*",
            "accept-encoding": "gzip, deflate" if self.options.compression else "identity",
            "user-agent": "foldline",
        }
        self._tls = Tls(self.options)
        self._process = os.getpid()
        self._blocking_connections = self._new_blocking_connections()
        self._per_loop = PerLoop(self._new_loop_connections, _close_connections)
        self._last_head: RenderedHead | None = None
        self._httpx: HttpxTransport | None = None

    def __repr__(self) -> str:
        return f"NativeTransport({self.options!r})"

    def open(self, request: Request, *, blocking: bool) -> ResponseContext:
        """Send a request; leaving the context releases the connection immediately."""
        request = with_option_headers(request, self.options)
        return ResponseContext(request, partial(self._begin, blocking=blocking))

    def close(self) -> None:
        """Close idle connections of sync calls; the transport can still be used."""
        self._blocking_connections.pool.close()
        if self._httpx is not None:
            self._httpx.close()

    async def aclose(self) -> None:
        """Close idle connections, including those of this event loop; the transport can still be used."""
        self.close()
        await self._per_loop.drop()
        if self._httpx is not None:
            await self._httpx.aclose()

    def _begin(self, request: Request, *, blocking: bool) -> Exchange:
        if self._process != os.getpid():  # a forked child must not use the parent's sockets
            self._process = os.getpid()
            self._tls.after_fork()
            self._blocking_connections.pool.close()
            self._blocking_connections = self._new_blocking_connections()
        proxy = self._proxy(request)
        if proxy is not None and proxy != self.options.proxy and not proxy.startswith("http://"):
            return self._httpx_transport().begin(request, blocking=blocking)
        route = ProxyRoute.of(request, proxy)
        message = self._message(request, route)
        if blocking:
            return BlockingExchange(request, route, message, self._blocking_connections, self._tls)
        return AsyncExchange(request, route, message, self._per_loop, self._tls)

    def _proxy(self, request: Request) -> str | None:
        if request.address is not None:
            return self.options.proxy  # the environment's proxy would resolve the host again
        return proxy_for(request.url, self.options)

    def _httpx_transport(self) -> HttpxTransport:
        """Return the transport for https and SOCKS proxies of the environment."""
        if self._httpx is None:
            from foldline.transports.httpx import HttpxTransport  # noqa: PLC0415  an extra

            with self._tls.lock:
                if self._httpx is None:
                    self._httpx = HttpxTransport(self.options)
        return self._httpx

    def _new_blocking_connections(self) -> SharedConnections[BlockingWire, threading.Semaphore]:
        max_connections = self.options.max_connections
        slots = None if max_connections is None else threading.Semaphore(max_connections)
        pool: Pool[BlockingWire] = Pool(self.options.keep_alive)
        weakref.finalize(self, pool.close)  # also when the program ends
        return SharedConnections(pool, slots, self.options.pool_timeout)

    def _new_loop_connections(self) -> LoopConnections:
        max_connections = self.options.max_connections
        slots = None if max_connections is None else asyncio.Semaphore(max_connections)
        return LoopConnections(Pool(self.options.keep_alive), slots, self.options.pool_timeout)

    def _message(self, request: Request, route: ProxyRoute) -> bytes:
        """Return an encoded request; most have the same head as the one before."""
        last = self._last_head
        if (
            last is None
            or last[0] is not route
            or last[1] != request.url
            or last[2] != request.headers
            or last[3] != request.method
        ):
            head = self._head(request, route)
            headers = dict(request.headers)  # the caller may change theirs
            self._last_head = last = (route, request.url, headers, request.method, head)
        return with_body(request.method, last[4], request.body)

    def _head(self, request: Request, route: ProxyRoute) -> bytes:
        headers = {
            **self._headers,
            **{name.lower(): value for name, value in request.headers.items()},
        }
        is_proxied = route.proxy is not None and not route.secure
        if is_proxied and route.proxy is not None:
            headers.update(proxy_authorization(route.proxy))
        return write_head(request.method, request.url, headers, absolute_url=is_proxied)


async def _close_connections(connections: LoopConnections) -> None:
    connections.pool.close()
    connections.timer.close()
