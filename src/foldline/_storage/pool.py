"""`ConnectionPool`: a bounded number of connections of one process, used by one thread at a time each.

Whoever waits longest gets the next free connection, and waits no longer than the deadline of the call. A connection
that nobody used for a while is closed. A forked child must not use its parent's connections, nor close them: it opens
its own, whatever the threads of its parent were doing with the pool in the moment of the fork.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from foldline._io.deadline import seconds_left
from foldline._io.locks import FairItems, reentrant_mutex
from foldline.exceptions import StoreError

__all__ = ["IDLE_SECONDS", "ConnectionPool", "Slot", "shared_pool"]

C = TypeVar("C")
IDLE_SECONDS: Final = 60.0
"""Seconds without use after which a connection is closed, when another one is given back."""
SWEEPS: Final = 4
"""How often in that time unused connections are looked for."""


class Slot(Generic[C]):
    """The place of one connection."""

    __slots__ = ("connection", "home", "is_open", "used_at")
    connection: C
    """There is one if `is_open`, so always in a slot that was taken."""

    def __init__(self, home: FairItems[Slot[C]]) -> None:
        self.home = home
        self.is_open = False
        self.used_at = 0.0

    def fill(self, connection: C) -> None:
        """Put a connection into an empty slot."""
        self.connection = connection
        self.is_open = True

    def empty(self) -> C:
        """Remove the connection and return it."""
        connection = self.connection
        del self.connection
        self.is_open = False
        return connection


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
        survives_fork: bool = False,
    ) -> None:
        """Open at most `size` connections; wait `patience` seconds for a free one.

        With `survives_fork` a child goes on with the connections of its parent, but for those that were in use.
        """
        self._where = where
        self._open = open_connection
        self._size = size
        self._patience = patience
        self._idle_seconds = idle_seconds
        self._survives_fork = survives_fork
        self.losses = 0
        """How often somebody noticed that what the connections were open to is there no more."""
        self._sweep_at = monotonic() + idle_seconds / SWEEPS
        self._start()
        _POOLS.add(self)

    def _start(self) -> None:
        self._slots: FairItems[Slot[C]] = FairItems(())
        self._slots.change(lambda _: [Slot(self._slots) for _ in range(self._size)])
        self._finalizer = weakref.finalize(self, _close_idle, self._slots)

    def take(self) -> Slot[C]:
        """Take a slot with a connection; end it by `give_back`, or by `drop` if the connection failed."""
        try:
            slot = self._slots.take(self._seconds)
        except TimeoutError as error:
            raise StoreError(
                f"{self._where}: all {self._size} connections were in use for {error.args[0]:g} s: try again, or allow "
                "more connections"
            ) from None
        if not slot.is_open:
            try:
                slot.fill(self._open())
            except BaseException:
                slot.home.give_back_last(slot)
                raise
        return slot

    def give_back(self, slot: Slot[C]) -> None:
        """Give a slot back; after a fork the parent's connections stay apart, unused."""
        slot.used_at = now = monotonic()
        slot.home.give_back(slot)
        if now > self._sweep_at:
            self._sweep_at = now + self._idle_seconds / SWEEPS
            _close_idle(self._slots, now - self._idle_seconds)

    def drop(self, slot: Slot[C]) -> None:
        """Close the connection of a slot, and give the slot back."""
        try:
            if slot.home is self._slots:  # else it is the parent's
                _close(slot.empty())
        finally:
            slot.home.give_back_last(slot)

    @contextmanager
    def connection(self) -> Generator[C, None, None]:
        """Yield a connection; one that fails inside the block is closed."""
        slot = self.take()
        try:
            yield slot.connection
        except BaseException:
            self.drop(slot)
            raise
        self.give_back(slot)

    def close(self) -> None:
        """Close the idle connections; the next use opens new ones."""
        _close_idle(self._slots)

    def lose(self) -> None:
        """Close the idle connections, and let everybody with this pool notice why."""
        self.losses += 1
        self.close()

    def _seconds(self) -> float:
        left = seconds_left()
        return self._patience if left is None else min(self._patience, left)

    def _renew(self) -> None:
        """Forget the connections of the parent; whoever has one of them gives it back to where it was."""
        self._slots.renew_lock()
        if not self._survives_fork:
            self._finalizer.detach()
            _INHERITED.append(self._slots)
            self._start()


def _close(connection: Any) -> None:  # noqa: ANN401  of either database
    connection.close()


def _close_idle(slots: FairItems[Slot[C]], before: float = float("inf")) -> None:
    """Close the connections that nobody has, or those of them that were not used since a time."""
    unused: list[C] = []

    def remove(idle: list[Slot[C]]) -> list[Slot[C]]:
        old = [slot for slot in idle if slot.is_open and slot.used_at < before]
        unused.extend(slot.empty() for slot in old)
        return sorted(idle, key=lambda slot: slot.is_open)  # open ones are taken first

    slots.change(remove)
    for connection in unused:
        _close(connection)


_SHARED: Final[weakref.WeakValueDictionary[Hashable, ConnectionPool[Any]]] = (
    weakref.WeakValueDictionary()
)
_SHARED_LOCK: Final = [reentrant_mutex()]
"""A forked child puts a new one here."""


def shared_pool(key: Hashable, make: Callable[[], ConnectionPool[C]]) -> ConnectionPool[C]:
    """Return the pool of a key, which lives as long as somebody has it.

    A program may make an object per conversation; the bound is for all that open one place in the same way.
    """
    with _SHARED_LOCK[
        0
    ]:  # two threads would get a pool each: `setdefault` of weak values looks, then sets
        pool = _SHARED.get(key)
        if pool is None:
            pool = _SHARED[key] = make()
        return pool


_POOLS: Final[weakref.WeakSet[ConnectionPool[Any]]] = weakref.WeakSet()
_INHERITED: Final[list[FairItems[Any]]] = []
"""The slots of the parent, in a forked child: connections are closed when nobody refers to them any more."""


def _renew_all() -> None:
    _SHARED_LOCK[0] = reentrant_mutex()
    for pool in list(_POOLS):
        pool._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
