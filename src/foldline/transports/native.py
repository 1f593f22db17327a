"""The transport on Python's own sockets and event loop: HTTP/1.1, nothing to install, and the default.

It exists for its speed (docs/transports.md has the figures) and because sync and async share one body. HTTP/2, https
and SOCKS proxies are left to `foldline.transports.httpx.HttpxTransport`.
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
from foldline.transports._body import Exchange, Opening
from foldline.transports._environment import proxy_for, split_proxy
from foldline.transports._exchange import AsyncExchange, BlockingExchange
from foldline.transports._http1 import proxy_authorization, with_body, write_head
from foldline.transports._loops import PerLoop
from foldline.transports._pool import Pool
from foldline.transports._route import Route
from foldline.transports._steps import LoopSide, Side
from foldline.transports._tls import Tls
from foldline.transports._wires import BlockingWire
from foldline.transports.base import HttpOptions, Request, check_header, with_option_headers

if TYPE_CHECKING:  # an extra
    from foldline.transports.httpx import HttpxTransport

__all__ = ["NativeTransport"]


RenderedHead = tuple[Route, str, Mapping[str, str], str, bytes]
"""Route, URL, headers and method of a request, and the head that was written for it."""


class NativeTransport:
    """Sends requests over Python's own sockets.

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
        self._blocking = self._blocking_side()
        self._per_loop = PerLoop(self._loop_side, _close_side)
        self._last_head: RenderedHead | None = None
        self._httpx: HttpxTransport | None = None

    def __repr__(self) -> str:
        return f"NativeTransport({self.options!r})"

    def open(self, request: Request, *, blocking: bool) -> Opening:
        """Send a request; leaving the context frees the connection at once."""
        request = with_option_headers(request, self.options)
        return Opening(request, partial(self._begin, blocking=blocking))

    def close(self) -> None:
        """Drop idle connections of blocking calls; the transport can still be used."""
        self._blocking.pool.close()
        if self._httpx is not None:
            self._httpx.close()

    async def aclose(self) -> None:
        """Drop idle connections, those of this event loop included; the transport can still be used."""
        self.close()
        await self._per_loop.drop()
        if self._httpx is not None:
            await self._httpx.aclose()

    def _begin(self, request: Request, *, blocking: bool) -> Exchange:
        if self._process != os.getpid():  # a forked child: the parent's sockets are not ours to use
            self._process = os.getpid()
            self._tls.after_fork()
            self._blocking.pool.close()
            self._blocking = self._blocking_side()
        proxy = self._proxy(request)
        if proxy is not None and proxy != self.options.proxy and not proxy.startswith("http://"):
            return self._httpx_transport().begin(request, blocking=blocking)
        route = Route.of(request, proxy)
        message = self._message(request, route)
        if blocking:
            return BlockingExchange(request, route, message, self._blocking, self._tls)
        return AsyncExchange(request, route, message, self._per_loop, self._tls)

    def _proxy(self, request: Request) -> str | None:
        if request.address is not None:
            return self.options.proxy  # the environment's proxy would look the name up again
        return proxy_for(request.url, self.options)

    def _httpx_transport(self) -> HttpxTransport:
        """Return the transport for https and SOCKS proxies that the environment names."""
        if self._httpx is None:
            from foldline.transports.httpx import HttpxTransport  # noqa: PLC0415  an extra

            with self._tls.lock:
                if self._httpx is None:
                    self._httpx = HttpxTransport(self.options)
        return self._httpx

    def _blocking_side(self) -> Side[BlockingWire, threading.Semaphore]:
        most = self.options.max_connections
        slots = None if most is None else threading.Semaphore(most)
        pool: Pool[BlockingWire] = Pool(self.options.keep_alive)
        weakref.finalize(self, pool.close)  # also when the program ends
        return Side(pool, slots, self.options.pool_timeout)

    def _loop_side(self) -> LoopSide:
        most = self.options.max_connections
        slots = None if most is None else asyncio.Semaphore(most)
        return LoopSide(Pool(self.options.keep_alive), slots, self.options.pool_timeout)

    def _message(self, request: Request, route: Route) -> bytes:
        """Write a request; most have the head of the one before."""
        before = self._last_head
        if (
            before is None
            or before[0] is not route
            or before[1] != request.url
            or before[2] != request.headers
            or before[3] != request.method
        ):
            head = self._head(request, route)
            headers = dict(request.headers)  # the caller may change theirs
            self._last_head = before = (route, request.url, headers, request.method, head)
        return with_body(request.method, before[4], request.body)

    def _head(self, request: Request, route: Route) -> bytes:
        headers = {
            **self._headers,
            **{name.lower(): value for name, value in request.headers.items()},
        }
        through = route.proxy is not None and not route.secure
        if through and route.proxy is not None:
            headers.update(proxy_authorization(route.proxy))
        return write_head(request.method, request.url, headers, whole_url=through)


async def _close_side(side: LoopSide) -> None:
    side.pool.close()
    side.timer.close()
