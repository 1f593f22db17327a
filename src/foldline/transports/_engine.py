"""The connection pools of `httpcore2`, the engine of httpx2, with foldline's sockets and connections."""

from __future__ import annotations

from typing import Any

import httpcore2

from foldline.transports._blocking import DeadlineBackend, limit_this_thread
from foldline.transports._connect import SOCKET_OPTIONS
from foldline.transports._connections import CONNECTION, AsyncConnection, BlockingConnection
from foldline.transports._duplex import DuplexBackend

__all__ = ["CONNECTION", "AsyncPool", "BlockingPool", "Secret", "limit_this_thread"]


class Secret(bytes):
    """Bytes that are masked in logs: the engine logs the password of a SOCKS proxy at level DEBUG."""

    def __repr__(self) -> str:
        return "***"


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
