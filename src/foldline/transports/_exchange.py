"""One request of the native transport: the same steps for sync and async.

Only the waiting differs: `BlockingExchange` waits in the calling thread and never suspends, `AsyncExchange` waits on
the running loop.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Generic

from foldline.transports import _faults
from foldline.transports._http1 import CutShort, ResponseReader, write_connect
from foldline.transports._loops import PerLoop
from foldline.transports._pool import W
from foldline.transports._route import ProxyRoute
from foldline.transports._steps import (
    STEP_FAILURES,
    Head,
    LoopConnections,
    S,
    SharedConnections,
    TimeBudget,
    check_tunnel,
    explain_failure,
    limit_connecting,
    raise_closed_by_proxy,
)
from foldline.transports._tls import Tls
from foldline.transports._wait import Alarm, Expired
from foldline.transports._wires import AsyncWire, BlockingWire
from foldline.transports.base import Request

__all__ = ["AsyncExchange", "BlockingExchange"]

SIMPLE_WRITE_SIZE = 128 * 1024
"""Up to this many bytes of a request are written without reading at the same time."""
CLOSED = "it closed the connection without an answer"
CLOSED_REUSED = (
    f"{CLOSED} (one that carried an earlier request; whether it read this one is not known, so the "
    "transport did not send it again)"
)


class NativeExchange(ABC, Generic[W, S]):
    """One request in progress, sync or async."""

    __slots__ = (
        "_connections", "_first", "_has_slot", "_is_reused", "_message", "_reader", "_request", "_route", "_tls",
        "_wire",
    )  # fmt: skip

    def __init__(
        self,
        request: Request,
        route: ProxyRoute,
        message: bytes,
        connections: SharedConnections[W, S] | None,
        tls: Tls,
    ) -> None:
        self._request = request
        self._route = route
        self._message = message
        self._connections: SharedConnections[W, S] | None = connections
        self._tls = tls
        self._reader = ResponseReader(request.method, request.limits.headers)
        self._wire: W | None = None
        self._first = b""
        """The part of the body that was received with the head."""
        self._has_slot = False
        self._is_reused = False
        """Whether the connection carried an earlier request."""

    # -- how a step waits

    @abstractmethod
    async def _find_connections(self) -> SharedConnections[W, S]: ...

    @abstractmethod
    async def _take_slot(self, slots: S, timeout: float) -> bool: ...

    @abstractmethod
    async def _open(self, direct: ssl.SSLContext | None, budget: float | None) -> W: ...

    @abstractmethod
    async def _secure(self, wire: W, tls: ssl.SSLContext, budget: float | None) -> None: ...

    @abstractmethod
    async def _context(self) -> ssl.SSLContext: ...

    @abstractmethod
    def _write(self, wire: W, data: bytes, budget: float | None) -> None: ...

    @abstractmethod
    def _write_request(self, wire: W, remaining: TimeBudget) -> OSError | None:
        """Write the request, or return the error: there may be an answer anyway (F-Y06)."""

    @abstractmethod
    def _has_unsent(self, wire: W) -> bool: ...

    @abstractmethod
    def _receive(self, wire: W, budget: float | None) -> Awaitable[bytes]: ...

    # -- the steps

    async def start(self, budget: float | None) -> Head:
        """Send the request; return the status and headers."""
        remaining = TimeBudget(budget)
        self._connections = connections = self._connections or await self._find_connections()
        if connections.slots is not None:
            self._has_slot = await self._take_slot(connections.slots, connections.pool_timeout)
            if not self._has_slot:
                raise _faults.timed_out(self._request, "pool", connections.pool_timeout)
        reader = self._reader
        try:
            # Sent only once: a server that does not answer may have read the request (F-H07, F-Y07).
            wire = connections.pool.take(self._route.key)
            self._is_reused = wire is not None
            if wire is None:
                wire = await self._connect(remaining)
            self._wire = wire
            write_error = self._write_request(wire, remaining)
            while not reader.has_head:
                if not (data := await self._receive(wire, remaining.left())):
                    raise write_error or CutShort(CLOSED_REUSED if self._is_reused else CLOSED)
                self._first = reader.feed(data)
        except STEP_FAILURES as error:
            raise explain_failure(self._request, error, started=False) from error
        return reader.status, reader.headers

    async def read(self, budget: float | None) -> bytes | None:
        """Return the next raw data, or `None` at the end."""
        if self._first:
            piece, self._first = self._first, b""
            return piece
        reader, wire = self._reader, self._wire
        if reader.done or wire is None:
            return None
        try:
            data = await self._receive(wire, budget)
            if data:
                return reader.feed(data)
            reader.end()
        except STEP_FAILURES as error:
            raise explain_failure(self._request, error, started=True) from error
        return None

    def buffered_body(self) -> bytes | None:
        """Return the body if it was completely received with the head, as for short answers."""
        if not self._reader.done:
            return None
        piece, self._first = self._first, b""
        return piece

    async def close(self, *, finished: bool) -> None:
        """Release the connection."""
        wire, self._wire = self._wire, None
        connections = self._connections
        if connections is None:
            return
        if wire is not None:
            if self._reader.done and self._reader.reusable and not self._has_unsent(wire):
                connections.pool.put(self._route.key, wire, self._reader.keep_alive)
            else:
                wire.close()
        if self._has_slot and connections.slots is not None:
            self._has_slot = False
            connections.slots.release()

    async def _connect(self, remaining: TimeBudget) -> W:
        route = self._route
        tls = await self._context() if route.secure else None
        with limit_connecting(self._request, remaining):
            limit = TimeBudget(remaining.at_most(self._request.timeouts.connect))
            direct = tls if route.proxy is None and route.address is None else None
            self._wire = wire = await self._open(direct, limit.left())
            if tls is not None and route.address is not None:
                await self._secure(wire, tls, limit.left())
            if tls is not None and route.proxy is not None:
                self._write(wire, write_connect(route.host, route.port, route.proxy), limit.left())
                reader = ResponseReader("HEAD", self._request.limits.headers)
                while not reader.has_head:
                    reader.feed(await self._receive(wire, limit.left()) or raise_closed_by_proxy())
                check_tunnel(reader)
                await self._secure(wire, tls, limit.left())
        return wire


class BlockingExchange(NativeExchange[BlockingWire, threading.Semaphore]):
    """One request in progress in this thread; never suspends."""

    __slots__ = ("_unsent",)

    def __init__(
        self,
        request: Request,
        route: ProxyRoute,
        message: bytes,
        connections: SharedConnections[BlockingWire, threading.Semaphore],
        tls: Tls,
    ) -> None:
        super().__init__(request, route, message, connections, tls)
        self._unsent = len(message)
        """The number of bytes of the request that are not written yet."""

    async def _find_connections(self) -> SharedConnections[BlockingWire, threading.Semaphore]:
        assert self._connections is not None  # set in the constructor
        return self._connections

    async def _take_slot(self, slots: threading.Semaphore, timeout: float) -> bool:
        return slots.acquire(timeout=timeout)

    async def _open(self, direct: ssl.SSLContext | None, budget: float | None) -> BlockingWire:
        return BlockingWire.connect(*self._route.first_hop(), direct, budget)

    async def _secure(self, wire: BlockingWire, tls: ssl.SSLContext, budget: float | None) -> None:
        wire.secure(self._route.host, tls, budget)

    async def _context(self) -> ssl.SSLContext:
        return self._tls.get()

    def _write(self, wire: BlockingWire, data: bytes, budget: float | None) -> None:
        wire.send(data, budget)

    def _write_request(self, wire: BlockingWire, remaining: TimeBudget) -> OSError | None:
        try:
            if self._unsent > SIMPLE_WRITE_SIZE:
                self._write_and_read(wire, remaining)
            if self._unsent and not self._is_refused():
                wire.send(self._message[-self._unsent :], remaining.left())
                self._unsent = 0
        except OSError as error:
            return error
        return None

    def _write_and_read(self, wire: BlockingWire, remaining: TimeBudget) -> None:
        """Write until the request is complete or an answer begins."""
        unsent = memoryview(self._message)
        while unsent and not self._reader.has_head:
            written, data = wire.send_or_receive(unsent, remaining.left())
            unsent = unsent[written:]
            self._unsent = len(unsent)
            if data is not None:
                self._first += self._reader.feed(data)
                if not data:
                    return

    def _is_refused(self) -> bool:
        """Whether an answer was received after which the request need not be sent completely."""
        return self._reader.has_head and self._reader.status >= 300

    def _has_unsent(self, wire: BlockingWire) -> bool:
        return self._unsent > 0

    async def _receive(self, wire: BlockingWire, budget: float | None) -> bytes:
        return wire.receive(budget)


class AsyncExchange(NativeExchange[AsyncWire, asyncio.Semaphore]):
    """One request in progress on the running loop."""

    __slots__ = ("_alarm", "_per_loop")

    _connections: LoopConnections | None

    def __init__(
        self,
        request: Request,
        route: ProxyRoute,
        message: bytes,
        per_loop: PerLoop[LoopConnections],
        tls: Tls,
    ) -> None:
        super().__init__(request, route, message, None, tls)
        self._per_loop = per_loop
        self._alarm: Alarm | None = None

    async def close(self, *, finished: bool) -> None:
        """Release the connection."""
        if self._alarm is not None:
            self._alarm.stop()
        await super().close(finished=finished)

    async def _find_connections(self) -> LoopConnections:
        return await self._per_loop.get()

    async def _take_slot(self, slots: asyncio.Semaphore, timeout: float) -> bool:
        self._alarm = Alarm()
        try:
            await self._alarm.wait(slots.acquire(), timeout)
        except Expired:
            return False
        return True

    async def _open(self, direct: ssl.SSLContext | None, budget: float | None) -> AsyncWire:
        self._alarm = self._alarm or Alarm()
        return await AsyncWire.connect(*self._route.first_hop(), direct, budget, self._alarm)

    async def _secure(self, wire: AsyncWire, tls: ssl.SSLContext, budget: float | None) -> None:
        assert self._alarm is not None  # created with the connection
        await wire.secure(self._route.host, tls, budget, self._alarm)

    async def _context(self) -> ssl.SSLContext:
        return await self._tls.aget()

    def _write(self, wire: AsyncWire, data: bytes, budget: float | None) -> None:
        wire.send(data)

    def _write_request(self, wire: AsyncWire, remaining: TimeBudget) -> OSError | None:
        wire.send(self._message)  # in the background, while waiting for the answer
        return None

    def _has_unsent(self, wire: AsyncWire) -> bool:
        return wire.has_unsent()

    def _receive(self, wire: AsyncWire, budget: float | None) -> Awaitable[bytes]:
        assert self._connections is not None  # set when the request started
        return wire.receive(budget, self._connections.timer)
