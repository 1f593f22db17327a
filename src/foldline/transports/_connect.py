"""Connect to the first address of a host that answers (happy eyeballs, RFC 8305), sync and async.

Addresses are tried in the system's order, alternating IPv6 and IPv4. If one fails, or has not answered after 0.25
seconds, the next is tried concurrently; the first that answers is used and the others are closed.
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
"""Seconds without data before the system sends keep-alive probes."""
KEEPALIVE_INTERVAL: Final = 20
KEEPALIVE_COUNT: Final = 5
IN_PROGRESS: Final = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK, 10035})
"""Return codes of `connect_ex` for an attempt in progress; 10035 is Windows' WSAEWOULDBLOCK."""
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
        available = [getattr(socket, name) for name in names if hasattr(socket, name)]
        options += [(socket.IPPROTO_TCP, option, value) for option in available[:1]]
    return options


SOCKET_OPTIONS: Final = _socket_options()
"""Send without delay; and detect a dead connection, even while a model thinks for minutes."""


def interleave(addresses: Iterable[Address]) -> list[Address]:
    """Return addresses with the two families alternating, starting with the system's first family."""
    families: dict[int, list[Address]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    return [address for address in chain(*zip_longest(*families.values())) if address is not None]


def connect_sync(host: str, port: int, budget: float | None) -> socket.socket:
    """Resolve the host and connect within the budget; return a blocking socket."""
    deadline = None if budget is None else time.monotonic() + budget
    addresses = literal_addresses(host, port) or RESOLVER.resolve(host, port, budget)
    # The coroutine is shared with async calls and never suspends here: one `send` runs it to its end.
    race = SyncRace(addresses, deadline).run()
    try:
        race.send(None)
    except StopIteration as result:
        connection: socket.socket = result.value
        connection.setblocking(True)  # noqa: FBT003  the standard library's
        return connection
    raise AssertionError("a sync race suspended")


async def connect_async(host: str, port: int) -> socket.socket:
    """Resolve the host and connect; return a non-blocking socket. The caller limits the time.

    `create_connection(host, port)` is not used: cancelled at the wrong step, it does not close its socket.
    """
    addresses = literal_addresses(host, port)
    if not addresses:
        addresses = await asyncio.wrap_future(RESOLVER.submit(host, port))
    return await AsyncRace(addresses).run()


class Race(ABC):
    """Concurrent attempts to connect; the first that succeeds is used."""

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
        """Return the number of attempts in progress."""

    @abstractmethod
    async def _wait(self, seconds: float | None) -> socket.socket | None:
        """Wait for an attempt: return its socket, raise its error, or return None after the seconds."""

    @abstractmethod
    def _close(self) -> None:
        """Close the remaining attempts."""


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
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise Expired
            seconds = remaining if seconds is None else min(seconds, remaining)
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
    """Attempts on the running loop, each a task that closes its socket if it fails or is cancelled."""

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
                attempt.result().close()  # it succeeded too


def new_socket(address: Address) -> socket.socket:
    """Return a non-blocking socket for an address."""
    family, kind, protocol, _, _ = address
    created = socket.socket(family, kind, protocol)
    try:
        created.setblocking(False)  # noqa: FBT003
        for level, option, value in SOCKET_OPTIONS:
            created.setsockopt(level, option, value)
    except BaseException:  # Ctrl-C may come here
        created.close()
        raise
    return created


def connect_error(code: int) -> OSError:
    """Return the error of a failed attempt, of the class for its code."""
    return OSError(code, os.strerror(code))
