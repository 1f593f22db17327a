"""Idle connections of the native transport, kept for the next request to the same place."""

from __future__ import annotations

import os
import threading
import time
from typing import Generic, Protocol, TypeVar

Key = tuple[str, int, bool, str | None]
"""Host, port, whether TLS, and the proxy between."""


class Wire(Protocol):
    """What a pool needs of a connection."""

    expires: float
    """When it is kept no longer, by `time.monotonic`."""

    def is_stale(self) -> bool:
        """Whether it can no longer be used."""

    def close(self) -> None:
        """Close at once."""


W = TypeVar("W", bound=Wire)

MOST_IDLE = 1000
"""Idle connections kept for one place; a burst of calls closes the others when it is over."""
PART_OF_PROMISE = 0.8
"""Of the seconds in a `Keep-Alive: timeout` header: a request needs a moment to reach the server."""


class Pool(Generic[W]):
    """Idle connections by where they lead; the newest is used first."""

    def __init__(self, keep_alive: float) -> None:
        self._keep_alive = keep_alive
        self._idle: dict[Key, list[W]] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def take(self, key: Key) -> W | None:
        """Return a connection that is still alive, if there is one."""
        while True:
            with self._lock:
                idle = self._idle.get(key)
                if not idle:
                    return None
                wire = idle.pop()
            if time.monotonic() < wire.expires and not wire.is_stale():
                return wire
            wire.close()

    def put(self, key: Key, wire: W, promise: float | None = None) -> None:
        """Keep a connection for the next request, within the seconds that the server promises; drop the old ones."""
        now = time.monotonic()
        keep_alive = self._keep_alive
        if promise is not None:
            keep_alive = min(keep_alive, promise * PART_OF_PROMISE)
        wire.expires = now + keep_alive
        old: list[W] = []
        with self._lock:
            idle = self._idle.setdefault(key, [])
            while idle and (now >= idle[0].expires or len(idle) >= MOST_IDLE):
                old.append(idle.pop(0))
            idle.append(wire)
        for one in old:
            one.close()

    def close(self) -> None:
        """Close every idle connection; in a forked child, let go of the parent's."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            wires = [wire for idle in self._idle.values() for wire in idle]
            self._idle.clear()
        for wire in wires:
            wire.close()
