"""Connections of the native transport: one class for sync and one for async; nothing in here knows HTTP.

`BlockingWire` is a socket whose every step has a budget. `AsyncWire` is a protocol on an event loop that holds back
a server faster than its reader. Both are closed at once: nothing is sent or waited for.
"""

from __future__ import annotations

import asyncio
import math
import os
import select
import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from typing import Any

from foldline.transports._connect import connect_async, connect_sync
from foldline.transports._wait import Alarm, DeadlineTimer, Expired

MOST_RECEIVED = 256 * 1024
"""Bytes an `AsyncWire` keeps for its reader before it tells the server to wait."""
PIECE = 64 * 1024


class Readable:
    """Whether a socket has something to read: on an idle connection, its end or an answer to nothing."""

    __slots__ = ("_poll", "_socket")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._poll: Any = None
        with suppress(AttributeError):  # Windows has no poll
            self._poll = select.poll()
            self._poll.register(connected, select.POLLIN)

    def __call__(self) -> bool:
        try:
            if self._poll is None:
                return bool(select.select([self._socket], [], [], 0)[0])
            return bool(self._poll.poll(0))
        except (OSError, ValueError):
            return True


def _wait_for_either(connected: socket.socket, seconds: float | None) -> None:
    """Wait until a socket can be written to or read from."""
    if not hasattr(select, "poll"):  # Windows
        select.select([connected], [connected], [], seconds)
        return
    poll = select.poll()
    poll.register(connected, select.POLLIN | select.POLLOUT)
    poll.poll(None if seconds is None else math.ceil(seconds * 1000))


def raise_expired(error: BaseException) -> None:
    """Raise `Expired` for a limit of ours; a time-out of the system's own (ETIMEDOUT) has a number and is a failure."""
    if isinstance(error, TimeoutError) and error.errno is None:
        raise Expired from None


class BlockingWire:
    """A socket, used by one thread at a time."""

    __slots__ = ("_limited", "_poll", "_process", "_socket", "expires")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._limited: float | None = -1.0
        """The seconds that the socket waits, as set last; -1 for not known."""
        self._poll: Readable | None = None
        self._process = os.getpid()
        self.expires = 0.0

    @classmethod
    def connect(
        cls, host: str, port: int, tls: ssl.SSLContext | None, budget: float | None
    ) -> BlockingWire:
        """Connect, and agree on TLS if a context is given."""
        deadline = None if budget is None else time.monotonic() + budget
        wire = cls(connect_sync(host, port, budget))
        if tls is not None:
            wire.secure(host, tls, None if deadline is None else deadline - time.monotonic())
        return wire

    def secure(self, host: str, tls: ssl.SSLContext, budget: float | None) -> None:
        """Agree on TLS over the open connection."""
        try:
            # In two steps: interrupted in the one call that does both, Python forgets to close the socket.
            self._socket = tls.wrap_socket(
                self._socket, server_hostname=host, do_handshake_on_connect=False
            )
            self._limited = -1.0
            self._limit(budget)
            self._socket.do_handshake()
        except BaseException as error:
            self.close()
            raise_expired(error)
            raise

    def send(self, data: bytes, budget: float | None) -> None:
        """Send everything."""
        try:
            self._limit(budget)
            self._socket.sendall(data)
        except TimeoutError as error:
            raise_expired(error)
            raise

    def send_or_receive(self, data: memoryview, budget: float | None) -> tuple[int, bytes | None]:
        """Wait until a part can be sent or something arrives; return the bytes sent, and what arrived if it did."""
        deadline = None if budget is None else time.monotonic() + budget
        self._socket.settimeout(0)
        self._limited = -1.0
        while True:
            with suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return 0, self._socket.recv(PIECE)
            with suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return self._socket.send(data[:PIECE]), None
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Expired
            _wait_for_either(self._socket, left)

    def receive(self, budget: float | None) -> bytes:
        """Return what arrives next; nothing means that the other side has ended."""
        try:
            self._limit(budget)
            return self._socket.recv(PIECE)
        except TimeoutError as error:
            raise_expired(error)
            raise

    def is_stale(self) -> bool:
        """Whether the other side closed, or spoke out of turn, while nobody listened."""
        if self._poll is None:
            self._poll = Readable(self._socket)
        return self._poll()

    def close(self) -> None:
        """Close at once; a thread that is reading wakes up."""
        if self._process == os.getpid():  # a forked child must not end what its parent still uses
            with suppress(OSError):
                socket.socket.shutdown(
                    self._socket, socket.SHUT_RDWR
                )  # not the TLS one: it would talk first
        self._socket.close()

    def _limit(self, budget: float | None) -> None:
        if budget is not None:
            if budget <= 0:
                raise Expired
            # Telling the system costs more than all else here: a thousandth more or less is left alone.
            if self._limited is not None and 0 <= self._limited - budget <= budget / 1000:
                return
        elif self._limited is None:
            return
        self._socket.settimeout(budget)
        self._limited = budget


class AsyncWire(asyncio.Protocol):
    """A connection on the running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received: deque[bytes] = deque()
        self._received_size = 0
        self._ended = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._poll: Readable | None = None
        self.expires = 0.0

    @classmethod
    async def connect(
        cls, host: str, port: int, tls: ssl.SSLContext | None, budget: float | None, alarm: Alarm
    ) -> AsyncWire:
        """Connect, and agree on TLS if a context is given."""
        return await alarm.wait(cls._open(host, port, tls), budget)

    @classmethod
    async def _open(cls, host: str, port: int, tls: ssl.SSLContext | None) -> AsyncWire:
        loop = asyncio.get_running_loop()
        connected = await connect_async(host, port)
        wire = cls()
        try:
            name = host if tls else None
            await loop.create_connection(
                lambda: wire, sock=connected, ssl=tls, server_hostname=name
            )
        except BaseException:
            wire.close()
            raise
        return wire

    async def secure(
        self, host: str, tls: ssl.SSLContext, budget: float | None, alarm: Alarm
    ) -> None:
        """Agree on TLS over the open connection."""
        assert self._transport is not None
        starting = self._loop.start_tls(self._transport, self, tls, server_hostname=host)
        try:
            self._transport = await alarm.wait(starting, budget)
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        """Send everything, in the background; a failure shows when reading."""
        assert self._transport is not None
        self._transport.write(data)

    def has_unsent(self) -> bool:
        """Whether a part of what was to be sent waits here."""
        return self._transport is None or self._transport.get_write_buffer_size() > 0

    async def receive(self, budget: float | None, timer: DeadlineTimer) -> bytes:
        """Return what arrives next; nothing means that the other side has ended."""
        while not self._received:
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            self._reader = reader = self._loop.create_future()
            if budget is not None:
                timer.watch(reader, budget)
            try:
                await reader
            finally:
                self._reader = None
                timer.leave(reader)
        piece = self._received.popleft()
        if (
            self._received_size > MOST_RECEIVED >= self._received_size - len(piece)
            and self._transport is not None
            and not self._ended
        ):
            self._transport.resume_reading()
        self._received_size -= len(piece)
        return piece

    def is_stale(self) -> bool:
        """Whether the other side closed, or spoke out of turn, while nobody listened."""
        if (
            self._ended
            or bool(self._received)
            or self._transport is None
            or self._transport.is_closing()
        ):
            return True
        if self._poll is None:  # the loop may not have run since the close arrived: ask the socket
            self._poll = Readable(self._transport.get_extra_info("socket"))
        return self._poll()

    def close(self) -> None:
        """Close at once."""
        self._ended = True
        self._wake()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop: connected."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Called by the loop: bytes came."""
        self._received.append(bytes(data))
        self._received_size += len(data)
        if (
            self._received_size > MOST_RECEIVED >= self._received_size - len(data)
            and self._transport is not None
        ):
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """Called by the loop: the other side has ended."""
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the loop: the connection is gone."""
        self._ended = True
        self._error = self._error or error
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
