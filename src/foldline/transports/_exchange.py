"""One request under way over the native transport's wires: the same steps for sync and async, written once.

How a step waits differs: `BlockingExchange` waits in the calling thread and never suspends, `AsyncExchange` on
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
from foldline.transports._http1 import CutShort, Reader, write_connect
from foldline.transports._loops import PerLoop
from foldline.transports._pool import W
from foldline.transports._route import Route
from foldline.transports._steps import (
    STEP_FAILURES,
    Budget,
    Head,
    LoopSide,
    S,
    Side,
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

SENT_AT_ONCE = 128 * 1024
"""Bytes of a request that are written without a look at what the server says meanwhile."""
CLOSED = "it closed the connection without an answer"
CLOSED_REUSED = (
    f"{CLOSED} (one that carried an earlier request; whether it read this one is not known, so the "
    "transport did not send it again)"
)


class NativeExchange(ABC, Generic[W, S]):
    """One request under way, sync or async."""

    __slots__ = (
        "_first", "_has_slot", "_is_reused", "_message", "_reader", "_request", "_route", "_side", "_tls", "_wire",
    )  # fmt: skip

    def __init__(
        self, request: Request, route: Route, message: bytes, side: Side[W, S] | None, tls: Tls
    ) -> None:
        self._request = request
        self._route = route
        self._message = message
        self._side: Side[W, S] | None = side
        self._tls = tls
        self._reader = Reader(request.method, request.limits.headers)
        self._wire: W | None = None
        self._first = b""
        """The part of the body that came with the head."""
        self._has_slot = False
        self._is_reused = False
        """Whether the connection carried an earlier request."""

    # -- how a step waits

    @abstractmethod
    async def _find_side(self) -> Side[W, S]: ...

    @abstractmethod
    async def _take_slot(self, slots: S, patience: float) -> bool: ...

    @abstractmethod
    async def _open(self, direct: ssl.SSLContext | None, budget: float | None) -> W: ...

    @abstractmethod
    async def _secure(self, wire: W, tls: ssl.SSLContext, budget: float | None) -> None: ...

    @abstractmethod
    async def _context(self) -> ssl.SSLContext: ...

    @abstractmethod
    def _write(self, wire: W, data: bytes, budget: float | None) -> None: ...

    @abstractmethod
    def _write_request(self, wire: W, left: Budget) -> OSError | None:
        """Write the request, or return why it broke off: there may be an answer all the same (F-Y06)."""

    @abstractmethod
    def _has_unsent(self, wire: W) -> bool: ...

    @abstractmethod
    def _receive(self, wire: W, budget: float | None) -> Awaitable[bytes]: ...

    # -- the steps

    async def start(self, budget: float | None) -> Head:
        """Send, and give status and headers."""
        left = Budget(budget)
        self._side = side = self._side or await self._find_side()
        if side.slots is not None:
            self._has_slot = await self._take_slot(side.slots, side.patience)
            if not self._has_slot:
                raise _faults.timed_out(self._request, "pool", side.patience)
        reader = self._reader
        try:
            # Sent once, whatever comes of it: a server that gives no answer may have read the request (F-H07, F-Y07).
            wire = side.pool.take(self._route.key)
            self._is_reused = wire is not None
            if wire is None:
                wire = await self._connect(left)
            self._wire = wire
            write_error = self._write_request(wire, left)
            while not reader.has_head:
                if not (data := await self._receive(wire, left.left())):
                    raise write_error or CutShort(CLOSED_REUSED if self._is_reused else CLOSED)
                self._first = reader.feed(data)
        except STEP_FAILURES as error:
            raise explain_failure(self._request, error, started=False) from error
        return reader.status, reader.headers

    async def read(self, budget: float | None) -> bytes | None:
        """Return the next raw piece, or `None` at the end."""
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

    def rest(self) -> bytes | None:
        """Return the body if all of it came with the head, as short answers do."""
        if not self._reader.done:
            return None
        piece, self._first = self._first, b""
        return piece

    async def close(self, *, finished: bool) -> None:
        """Free the connection."""
        wire, self._wire = self._wire, None
        side = self._side
        if side is None:
            return
        if wire is not None:
            if self._reader.done and self._reader.reusable and not self._has_unsent(wire):
                side.pool.put(self._route.key, wire, self._reader.keep_alive)
            else:
                wire.close()
        if self._has_slot and side.slots is not None:
            self._has_slot = False
            side.slots.release()

    async def _connect(self, left: Budget) -> W:
        route = self._route
        tls = await self._context() if route.secure else None
        with limit_connecting(self._request, left):
            limit = Budget(left.at_most(self._request.timeouts.connect))
            direct = tls if route.proxy is None and route.address is None else None
            self._wire = wire = await self._open(direct, limit.left())
            if tls is not None and route.address is not None:
                await self._secure(wire, tls, limit.left())
            if tls is not None and route.proxy is not None:
                self._write(wire, write_connect(route.host, route.port, route.proxy), limit.left())
                reader = Reader("HEAD", self._request.limits.headers)
                while not reader.has_head:
                    reader.feed(await self._receive(wire, limit.left()) or raise_closed_by_proxy())
                check_tunnel(reader)
                await self._secure(wire, tls, limit.left())
        return wire


class BlockingExchange(NativeExchange[BlockingWire, threading.Semaphore]):
    """One request under way in this thread: nothing here ever suspends."""

    __slots__ = ("_unsent",)

    def __init__(
        self,
        request: Request,
        route: Route,
        message: bytes,
        side: Side[BlockingWire, threading.Semaphore],
        tls: Tls,
    ) -> None:
        super().__init__(request, route, message, side, tls)
        self._unsent = len(message)
        """Bytes of the request that are not written."""

    async def _find_side(self) -> Side[BlockingWire, threading.Semaphore]:
        assert self._side is not None  # given from the start
        return self._side

    async def _take_slot(self, slots: threading.Semaphore, patience: float) -> bool:
        return slots.acquire(timeout=patience)

    async def _open(self, direct: ssl.SSLContext | None, budget: float | None) -> BlockingWire:
        return BlockingWire.connect(*self._route.first_hop(), direct, budget)

    async def _secure(self, wire: BlockingWire, tls: ssl.SSLContext, budget: float | None) -> None:
        wire.secure(self._route.host, tls, budget)

    async def _context(self) -> ssl.SSLContext:
        return self._tls.get()

    def _write(self, wire: BlockingWire, data: bytes, budget: float | None) -> None:
        wire.send(data, budget)

    def _write_request(self, wire: BlockingWire, left: Budget) -> OSError | None:
        try:
            if self._unsent > SENT_AT_ONCE:
                self._write_and_read(wire, left)
            if self._unsent and not self._is_refused():
                wire.send(self._message[-self._unsent :], left.left())
                self._unsent = 0
        except OSError as error:
            return error
        return None

    def _write_and_read(self, wire: BlockingWire, left: Budget) -> None:
        """Write until all is written or an answer begins."""
        rest = memoryview(self._message)
        while rest and not self._reader.has_head:
            written, data = wire.send_or_receive(rest, left.left())
            rest = rest[written:]
            self._unsent = len(rest)
            if data is not None:
                self._first += self._reader.feed(data)
                if not data:
                    return

    def _is_refused(self) -> bool:
        """Whether an answer came that asks for no more of the request."""
        return self._reader.has_head and self._reader.status >= 300

    def _has_unsent(self, wire: BlockingWire) -> bool:
        return self._unsent > 0

    async def _receive(self, wire: BlockingWire, budget: float | None) -> bytes:
        return wire.receive(budget)


class AsyncExchange(NativeExchange[AsyncWire, asyncio.Semaphore]):
    """One request under way on the running loop."""

    __slots__ = ("_alarm", "_per_loop")

    _side: LoopSide | None

    def __init__(
        self,
        request: Request,
        route: Route,
        message: bytes,
        per_loop: PerLoop[LoopSide],
        tls: Tls,
    ) -> None:
        super().__init__(request, route, message, None, tls)
        self._per_loop = per_loop
        self._alarm: Alarm | None = None

    async def close(self, *, finished: bool) -> None:
        """Free the connection."""
        if self._alarm is not None:
            self._alarm.stop()
        await super().close(finished=finished)

    async def _find_side(self) -> LoopSide:
        return await self._per_loop.get()

    async def _take_slot(self, slots: asyncio.Semaphore, patience: float) -> bool:
        self._alarm = Alarm()
        try:
            await self._alarm.wait(slots.acquire(), patience)
        except Expired:
            return False
        return True

    async def _open(self, direct: ssl.SSLContext | None, budget: float | None) -> AsyncWire:
        self._alarm = self._alarm or Alarm()
        return await AsyncWire.connect(*self._route.first_hop(), direct, budget, self._alarm)

    async def _secure(self, wire: AsyncWire, tls: ssl.SSLContext, budget: float | None) -> None:
        assert self._alarm is not None  # made when the wire was
        await wire.secure(self._route.host, tls, budget, self._alarm)

    async def _context(self) -> ssl.SSLContext:
        return await self._tls.aget()

    def _write(self, wire: AsyncWire, data: bytes, budget: float | None) -> None:
        wire.send(data)

    def _write_request(self, wire: AsyncWire, left: Budget) -> OSError | None:
        wire.send(self._message)  # in the background, while an answer is waited for
        return None

    def _has_unsent(self, wire: AsyncWire) -> bool:
        return wire.has_unsent()

    def _receive(self, wire: AsyncWire, budget: float | None) -> Awaitable[bytes]:
        assert self._side is not None  # found when the request began
        return wire.receive(budget, self._side.timer)
