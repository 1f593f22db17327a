"""`ConnectionPool`: a bounded number of connections of one process, used by one thread at a time each.

Whoever waits longest gets the next free connection, and waits no longer than the deadline of the call. A connection
that nobody used for a while is closed. A forked child must not use its parent's connections, nor close them: it opens
its own.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from foldline._io.deadline import seconds_left
from foldline._io.locks import FairSlots, mutex
from foldline.exceptions import StoreError

__all__ = ["IDLE_SECONDS", "ConnectionPool"]

C = TypeVar("C")
IDLE_SECONDS: Final = 60.0
"""Seconds without use after which a connection is closed, when another one is given back."""


class ConnectionPool(Generic[C]):
    """Connections to one database."""

    def __init__(
        self,
        where: str,
        open_connection: Callable[[], C],
        *,
        size: int,
        patience: float,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """Open at most `size` connections; wait `patience` seconds for a free one."""
        self._where = where
        self._open = open_connection
        self._size = size
        self._patience = patience
        self._idle_seconds = idle_seconds
        self._lock = mutex()
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._slots = FairSlots(self._size)
        self._idle: list[tuple[float, C]] = []
        weakref.finalize(self, _close_all, self._idle, self._pid)

    @contextmanager
    def connection(self) -> Generator[C, None, None]:
        """Yield a connection; one that fails inside the block is closed."""
        with self._lock:
            if self._pid != os.getpid():
                self._start()
            slots = self._slots
        left = seconds_left()
        seconds = self._patience if left is None else min(self._patience, left)
        if not slots.take(seconds):
            raise StoreError(
                f"{self._where}: all {self._size} connections were in use for {seconds:g} s: try again, or allow more "
                "connections"
            )
        try:
            connection, pid = self._take(), os.getpid()
            try:
                yield connection
            except BaseException:
                if pid == os.getpid():
                    _close(connection)
                raise
            if pid == os.getpid():  # else the block forked: the parent puts it back
                self._put_back(connection)
        finally:
            slots.give_back()

    def _take(self) -> C:
        with self._lock:
            if self._idle:
                return self._idle.pop()[1]
        return self._open()

    def _put_back(self, connection: C) -> None:
        now = time.monotonic()
        with self._lock:
            self._idle.append((now, connection))
            old = [each for each in self._idle if now - each[0] > self._idle_seconds]
            self._idle[:] = self._idle[len(old) :]  # the longest unused stand first
        for _, unused in old:
            _close(unused)

    def close(self) -> None:
        """Close the idle connections; the next use opens new ones."""
        with self._lock:
            _close_all(self._idle, self._pid)


def _close(connection: Any) -> None:  # noqa: ANN401  of either database
    connection.close()


def _close_all(connections: list[tuple[float, Any]], pid: int) -> None:
    while connections:
        _, connection = connections.pop()
        if pid == os.getpid():
            connection.close()
