"""Idle connections of the native transport, kept for the next request to the same host."""

from __future__ import annotations

import os
import threading
import time
from typing import Generic, Protocol, TypeVar

Key = tuple[str, int, bool, str | None]
"""Host, port, whether TLS is used, and the proxy."""


class PooledWire(Protocol):
    """A connection in a pool."""

    expires: float
    """The `time.monotonic` time after which it is not used again."""

    def is_stale(self) -> bool:
        """Whether it can no longer be used."""

    def close(self) -> None:
        """Close at once."""


W = TypeVar("W", bound=PooledWire)

MAX_IDLE = 1000
"""The maximum of idle connections per host; others are closed after a burst of calls."""
KEEP_ALIVE_FRACTION = 0.8
"""The used fraction of a `Keep-Alive: timeout` header: a request needs time to reach the server."""


class Pool(Generic[W]):
    """Idle connections by host; the newest is used first."""

    def __init__(self, keep_alive: float) -> None:
        self._keep_alive = keep_alive
        self._idle: dict[Key, list[W]] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def take(self, key: Key) -> W | None:
        """Return an idle connection that is still open, or None."""
        while True:
            with self._lock:
                idle = self._idle.get(key)
                if not idle:
                    return None
                wire = idle.pop()
            if time.monotonic() < wire.expires and not wire.is_stale():
                return wire
            wire.close()

    def put(self, key: Key, wire: W, server_timeout: float | None = None) -> None:
        """Store a connection for the next request, within the server's keep-alive timeout; close expired ones."""
        now = time.monotonic()
        keep_alive = self._keep_alive
        if server_timeout is not None:
            keep_alive = min(keep_alive, server_timeout * KEEP_ALIVE_FRACTION)
        wire.expires = now + keep_alive
        expired: list[W] = []
        with self._lock:
            idle = self._idle.setdefault(key, [])
            while idle and (now >= idle[0].expires or len(idle) >= MAX_IDLE):
                expired.append(idle.pop(0))
            idle.append(wire)
        for connection in expired:
            connection.close()

    def close(self) -> None:
        """Close every idle connection; in a forked child, discard the parent's."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            wires = [wire for idle in self._idle.values() for wire in idle]
            self._idle.clear()
        for wire in wires:
            wire.close()
