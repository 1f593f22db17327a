"""Connecting to the first address of a name that answers (happy eyeballs, RFC 8305), sync and async.

Addresses are tried in the system's order, IPv6 and IPv4 in turn. When one fails, or has not answered in a quarter of a
second, the next is tried beside it; the first that answers is used and the others are closed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import selectors
import socket
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import Any, Final

from foldline.transports._resolve import RESOLVER, Address, literal_addresses
from foldline.transports._wait import Expired

__all__ = ["SOCKET_OPTIONS", "connect_async", "connect_sync", "interleave"]

STAGGER: Final = 0.25
"""Seconds before the next address is tried too: the delay that RFC 8305 recommends."""
KEEPALIVE_IDLE: Final = 60
"""Seconds of silence before the system asks whether the other side is still there."""
KEEPALIVE_INTERVAL: Final = 20
KEEPALIVE_COUNT: Final = 5
IN_PROGRESS: Final = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK, 10035})
"""What `connect_ex` returns for an attempt under way; 10035 is Windows' WSAEWOULDBLOCK."""
Selector: Final[Any] = getattr(selectors, "PollSelector", selectors.SelectSelector)


def _socket_options() -> list[tuple[int, int, int]]:
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for names, value in (
        (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), KEEPALIVE_IDLE),  # the second is macOS's name
        (("TCP_KEEPINTVL",), KEEPALIVE_INTERVAL),
        (("TCP_KEEPCNT",), KEEPALIVE_COUNT),
    ):
        known = [getattr(socket, name) for name in names if hasattr(socket, name)]
        options += [(socket.IPPROTO_TCP, option, value) for option in known[:1]]
    return options


SOCKET_OPTIONS: Final = _socket_options()
"""Send at once; and notice a dead connection, also while a model thinks for minutes."""


def interleave(addresses: Iterable[Address]) -> list[Address]:
    """Put the addresses of the two families in turn, beginning with the family that the system puts first."""
    families: dict[int, list[Address]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    return [address for address in chain(*zip_longest(*families.values())) if address is not None]


def connect_sync(host: str, port: int, budget: float | None) -> socket.socket:
    """Look the name up and connect, within the budget; the socket blocks."""
    deadline = None if budget is None else time.monotonic() + budget
    addresses = literal_addresses(host, port) or RESOLVER.resolve(host, port, budget)
    # The body is shared with async calls and never suspends here: one `send` runs it to its end.
    racing = SyncRace(addresses, deadline).run()
    try:
        racing.send(None)
    except StopIteration as result:
        connected: socket.socket = result.value
        connected.setblocking(True)  # noqa: FBT003  the standard library's
        return connected
    raise AssertionError("a sync race suspended")


async def connect_async(host: str, port: int) -> socket.socket:
    """Look the name up and connect; the caller sets the limit. The socket does not block.

    Not by `create_connection(host, port)`: cancelled at the wrong step, it forgets to close its socket.
    """
    addresses = literal_addresses(host, port)
    if not addresses:
        addresses = await asyncio.wrap_future(RESOLVER.submit(host, port))
    return await AsyncRace(addresses).run()


class Race(ABC):
    """Attempts to connect, of which the first that succeeds counts."""

    def __init__(self, addresses: Iterable[Address]) -> None:
        self._remaining = deque(interleave(addresses))

    async def run(self) -> socket.socket:
        """Return the socket of the first address that answers, or raise the error of the last that failed."""
        error = OSError("the name has no address")
        try:
            while self._remaining or self._count():
                try:
                    if self._remaining:
                        self._start(self._remaining.popleft())
                    winner = await self._wait(STAGGER if self._remaining else None)
                except OSError as failure:
                    error = failure
                else:
                    if winner is not None:
                        return winner
        finally:
            self._close()
        raise error

    @abstractmethod
    def _start(self, address: Address) -> None:
        """Start an attempt."""

    @abstractmethod
    def _count(self) -> int:
        """Return how many attempts are under way."""

    @abstractmethod
    async def _wait(self, seconds: float | None) -> socket.socket | None:
        """Wait for an attempt: return its socket, raise its error, or return nothing when the seconds are over."""

    @abstractmethod
    def _close(self) -> None:
        """Close the attempts that are left."""


class SyncRace(Race):
    """Attempts that this thread waits for."""

    def __init__(self, addresses: Iterable[Address], deadline: float | None) -> None:
        super().__init__(addresses)
        self._deadline = deadline
        self._attempts: list[socket.socket] = []

    def _start(self, address: Address) -> None:
        attempt = new_socket(address)
        self._attempts.append(attempt)
        code = attempt.connect_ex(address[4])
        if code not in IN_PROGRESS:
            self._attempts.remove(attempt)
            attempt.close()
            raise connect_error(code)

    def _count(self) -> int:
        return len(self._attempts)

    async def _wait(self, seconds: float | None) -> socket.socket | None:
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise Expired
            seconds = left if seconds is None else min(seconds, left)
        with Selector() as selector:
            for attempt in self._attempts:
                selector.register(attempt, selectors.EVENT_WRITE)
            ready: list[socket.socket] = [key.fileobj for key, _ in selector.select(seconds)]
        for attempt in ready:
            self._attempts.remove(attempt)
            if code := attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                attempt.close()
                raise connect_error(code)
            return attempt
        return None

    def _close(self) -> None:
        for attempt in self._attempts:
            attempt.close()
        self._attempts.clear()


class AsyncRace(Race):
    """Attempts on the running loop, each a task that closes its own socket when it fails or is cancelled."""

    def __init__(self, addresses: Iterable[Address]) -> None:
        super().__init__(addresses)
        self._attempts: set[asyncio.Task[socket.socket]] = set()

    async def run(self) -> socket.socket:
        """Return the socket of the first address that answers; a single one needs no task."""
        if len(self._remaining) == 1:
            return await self._attempt(self._remaining[0])
        return await super().run()

    def _start(self, address: Address) -> None:
        self._attempts.add(asyncio.get_running_loop().create_task(self._attempt(address)))

    @staticmethod
    async def _attempt(address: Address) -> socket.socket:
        attempt = new_socket(address)
        try:
            await asyncio.get_running_loop().sock_connect(attempt, address[4])
        except BaseException:
            attempt.close()
            raise
        return attempt

    def _count(self) -> int:
        return len(self._attempts)

    async def _wait(self, seconds: float | None) -> socket.socket | None:
        finished, _ = await asyncio.wait(
            self._attempts, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        for attempt in finished:
            self._attempts.remove(attempt)
            return attempt.result()
        return None

    def _close(self) -> None:
        for attempt in self._attempts:
            if not attempt.cancel() and attempt.exception() is None:
                attempt.result().close()  # it succeeded too, a moment later


def new_socket(address: Address) -> socket.socket:
    """Make a socket for an address; it does not block."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)  # noqa: FBT003
    for level, option, value in SOCKET_OPTIONS:
        made.setsockopt(level, option, value)
    return made


def connect_error(code: int) -> OSError:
    """Return the error of a failed attempt, of the class that its code has."""
    return OSError(code, os.strerror(code))
