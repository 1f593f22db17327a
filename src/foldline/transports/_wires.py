"""Connections of the native transport, sync and async, below HTTP.

`BlockingWire` is a socket whose operations have a time budget. `AsyncWire` is an asyncio protocol with flow control.
Both are closed immediately: nothing more is sent or waited for.
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

MAX_BUFFERED = 256 * 1024
"""Bytes that an `AsyncWire` buffers before it pauses reading."""
READ_SIZE = 64 * 1024


class Readable:
    """Checks whether a socket is readable: on an idle connection, this means its end or unexpected data."""

    __slots__ = ("_poll", "_socket")

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._poll: Any = None
        with suppress(AttributeError):  # Windows has no poll
            self._poll = select.poll()
            self._poll.register(connection, select.POLLIN)

    def __call__(self) -> bool:
        try:
            if self._poll is None:
                return bool(select.select([self._socket], [], [], 0)[0])
            return bool(self._poll.poll(0))
        except (OSError, ValueError):
            return True


def _wait_for_either(connection: socket.socket, seconds: float | None) -> None:
    """Wait until a socket can be written to or read from."""
    if not hasattr(select, "poll"):  # Windows
        select.select([connection], [connection], [], seconds)
        return
    poll = select.poll()
    poll.register(connection, select.POLLIN | select.POLLOUT)
    poll.poll(None if seconds is None else math.ceil(seconds * 1000))


def raise_expired(error: BaseException) -> None:
    """Raise `Expired` for our own time limit; a timeout of the system (ETIMEDOUT) has an errno and is a failure."""
    if isinstance(error, TimeoutError) and error.errno is None:
        raise Expired from None


class BlockingWire:
    """A socket, used by one thread at a time."""

    __slots__ = ("_poll", "_process", "_socket", "_socket_timeout", "expires")

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket_timeout: float | None = -1.0
        """The last timeout set on the socket; -1 if unknown."""
        self._poll: Readable | None = None
        self._process = os.getpid()
        self.expires = 0.0

    @classmethod
    def connect(
        cls, host: str, port: int, tls: ssl.SSLContext | None, budget: float | None
    ) -> BlockingWire:
        """Connect, with TLS if there is a context."""
        deadline = None if budget is None else time.monotonic() + budget
        wire = cls(connect_sync(host, port, budget))
        if tls is not None:
            wire.secure(host, tls, None if deadline is None else deadline - time.monotonic())
        return wire

    def secure(self, host: str, tls: ssl.SSLContext, budget: float | None) -> None:
        """Start TLS on the open connection."""
        try:
            # In two steps: if a single call is interrupted, Python does not close the socket.
            self._socket = tls.wrap_socket(
                self._socket, server_hostname=host, do_handshake_on_connect=False
            )
            self._socket_timeout = -1.0
            self._limit(budget)
            self._socket.do_handshake()
        except BaseException as error:
            self.close()
            raise_expired(error)
            raise

    def send(self, data: bytes, budget: float | None) -> None:
        """Send all data."""
        try:
            self._limit(budget)
            self._socket.sendall(data)
        except TimeoutError as error:
            raise_expired(error)
            raise

    def send_or_receive(self, data: memoryview, budget: float | None) -> tuple[int, bytes | None]:
        """Wait until data can be sent or received; return the number of bytes sent, and the received data if any."""
        if budget is not None and budget <= 0:
            raise Expired
        deadline = None if budget is None else time.monotonic() + budget
        self._socket.settimeout(0)
        self._socket_timeout = -1.0
        while True:
            with suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return 0, self._socket.recv(READ_SIZE)
            with suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return self._socket.send(data[:READ_SIZE]), None
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise Expired
            _wait_for_either(self._socket, remaining)

    def receive(self, budget: float | None) -> bytes:
        """Return the next data; b"" means that the other side has closed."""
        try:
            self._limit(budget)
            return self._socket.recv(READ_SIZE)
        except TimeoutError as error:
            raise_expired(error)
            raise

    def is_stale(self) -> bool:
        """Whether the other side closed, or sent unexpected data, while the connection was idle."""
        if self._poll is None:
            self._poll = Readable(self._socket)
        return self._poll()

    def close(self) -> None:
        """Close immediately; a thread that is reading wakes up."""
        if (
            self._process == os.getpid()
        ):  # a forked child must not shut down its parent's connection
            with suppress(OSError):
                # Not the TLS method: it would send data first.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._socket.close()

    def _limit(self, budget: float | None) -> None:
        if budget is not None:
            if budget <= 0:
                raise Expired
            # The system call is expensive: a difference of up to a thousandth is ignored.
            if (
                self._socket_timeout is not None
                and 0 <= self._socket_timeout - budget <= budget / 1000
            ):
                return
        elif self._socket_timeout is None:
            return
        self._socket.settimeout(budget)
        self._socket_timeout = budget


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
        """Connect, with TLS if there is a context."""
        return await alarm.wait(cls._open(host, port, tls), budget)

    @classmethod
    async def _open(cls, host: str, port: int, tls: ssl.SSLContext | None) -> AsyncWire:
        loop = asyncio.get_running_loop()
        connection = await connect_async(host, port)
        wire = cls()
        try:
            name = host if tls else None
            await loop.create_connection(
                lambda: wire, sock=connection, ssl=tls, server_hostname=name
            )
        except BaseException:
            wire.close()
            raise
        return wire

    async def secure(
        self, host: str, tls: ssl.SSLContext, budget: float | None, alarm: Alarm
    ) -> None:
        """Start TLS on the open connection."""
        assert self._transport is not None
        handshake = self._loop.start_tls(self._transport, self, tls, server_hostname=host)
        try:
            self._transport = await alarm.wait(handshake, budget)
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        """Send all data in the background; a failure is raised when reading."""
        assert self._transport is not None
        self._transport.write(data)

    def has_unsent(self) -> bool:
        """Whether some data is not sent yet."""
        return self._transport is None or self._transport.get_write_buffer_size() > 0

    async def receive(self, budget: float | None, timer: DeadlineTimer) -> bytes:
        """Return the next data; b"" means that the other side has closed."""
        if budget is not None and budget <= 0:
            raise Expired  # also if there is data: a server that floods must not outrun a deadline
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
            self._received_size > MAX_BUFFERED >= self._received_size - len(piece)
            and self._transport is not None
            and not self._ended
        ):
            self._transport.resume_reading()
        self._received_size -= len(piece)
        return piece

    def is_stale(self) -> bool:
        """Whether the other side closed, or sent unexpected data, while the connection was idle."""
        if (
            self._ended
            or bool(self._received)
            or self._transport is None
            or self._transport.is_closing()
        ):
            return True
        if self._poll is None:  # the loop may not have processed a close yet: check the socket
            self._poll = Readable(self._transport.get_extra_info("socket"))
        return self._poll()

    def close(self) -> None:
        """Close immediately."""
        self._ended = True
        self._wake()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport; called by the loop."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Buffer received data; called by the loop."""
        self._received.append(bytes(data))
        self._received_size += len(data)
        if (
            self._received_size > MAX_BUFFERED >= self._received_size - len(data)
            and self._transport is not None
        ):
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """Record that the other side has closed; called by the loop."""
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Record that the connection is lost; called by the loop."""
        self._ended = True
        self._error = self._error or error
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
