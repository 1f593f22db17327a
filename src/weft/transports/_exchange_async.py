"""One request under way on the running loop."""

from __future__ import annotations

from weft.transports import _faults
from weft.transports._exchange import (
    EXPLAINED,
    Budget,
    Head,
    LoopSide,
    Received,
    check_tunnel,
    connecting,
    cut_off,
    explained,
)
from weft.transports._http1 import CutShort, Reader, write_connect
from weft.transports._loops import PerLoop
from weft.transports._route import Route
from weft.transports._tls import Tls
from weft.transports._wait import Alarm, Expired
from weft.transports._wires import AsyncWire
from weft.transports.base import Request

__all__ = ["AsyncExchange"]


class AsyncExchange(Received):
    """One request under way on the running loop."""

    __slots__ = (
        "_alarm", "_is_reused", "_message", "_per_loop", "_request", "_route", "_side", "_slot", "_tls", "_wire",
    )  # fmt: skip

    def __init__(
        self,
        request: Request,
        route: Route,
        message: bytes,
        per_loop: PerLoop[LoopSide],
        tls: Tls,
    ) -> None:
        self._request = request
        self._route = route
        self._message = message
        self._per_loop = per_loop
        self._tls = tls
        self._reader = Reader(request.method, request.limits.headers)
        self._alarm: Alarm | None = None
        self._side: LoopSide | None = None
        self._wire: AsyncWire | None = None
        self._first = b""
        self._slot = False
        self._is_reused = False
        """Whether the connection was kept from an earlier request, and nothing has come over it for this one."""

    async def start(self, budget: float | None) -> Head:
        """Send, and give status and headers."""
        left = Budget(budget)
        self._side = side = await self._per_loop.get()
        if side.slots is not None:
            await self._take_slot(side)
        reader = self._reader
        try:
            wire = side.pool.take(self._route.key)
            self._is_reused = wire is not None
            if wire is None:
                wire = await self._connect(left, side)
            self._wire = wire
            wire.send(self._message)
            while not reader.has_head:
                if data := await wire.receive(left.left(), side.bell):
                    self._is_reused = False
                    self._first = reader.feed(data)
                elif self._is_reused:
                    wire.close()
                    self._is_reused = False
                    self._wire = wire = await self._connect(left, side)
                    wire.send(self._message)
                else:
                    raise CutShort("it closed the connection without an answer")
        except EXPLAINED as error:
            raise explained(self._request, error, started=False) from error
        return reader.status, reader.headers

    async def read(self, budget: float | None) -> bytes | None:
        """Give the next raw piece, or `None` at the end."""
        if self._first:
            piece, self._first = self._first, b""
            return piece
        reader, wire, side = self._reader, self._wire, self._side
        if reader.done or wire is None or side is None:
            return None
        try:
            data = await wire.receive(budget, side.bell)
            if data:
                return reader.feed(data)
            reader.end()
        except EXPLAINED as error:
            raise explained(self._request, error, started=True) from error
        return None

    async def close(self, *, finished: bool) -> None:
        """Free the connection."""
        if self._alarm is not None:
            self._alarm.stop()
        wire, self._wire = self._wire, None
        side = self._side
        if wire is not None and side is not None:
            if self._reader.done and self._reader.reusable:
                side.pool.put(self._route.key, wire)
            else:
                wire.close()
        if self._slot and side is not None and side.slots is not None:
            self._slot = False
            side.slots.release()

    async def _take_slot(self, side: LoopSide) -> None:
        self._alarm = Alarm()
        try:
            await self._alarm.wait(_acquire(side), side.patience)
        except Expired:
            raise _faults.timed_out(self._request, "pool", side.patience) from None
        self._slot = True

    async def _connect(self, left: Budget, side: LoopSide) -> AsyncWire:
        route = self._route
        self._alarm = alarm = self._alarm or Alarm()
        tls = await self._tls.aget() if route.secure else None
        with connecting(self._request, left):
            limit = Budget(left.at_most(self._request.timeouts.connect))
            direct = tls if route.proxy is None and route.address is None else None
            wire = await AsyncWire.connect(*route.first_hop(), direct, limit.left(), alarm)
            if tls is not None and route.address is not None:
                self._wire = wire
                await wire.secure(route.host, tls, limit.left(), alarm)
            if tls is not None and route.proxy is not None:
                self._wire = wire
                wire.send(write_connect(route.host, route.port, route.proxy))
                reader = Reader("HEAD", self._request.limits.headers)
                while not reader.has_head:
                    reader.feed(await wire.receive(limit.left(), side.bell) or cut_off())
                check_tunnel(reader)
                await wire.secure(route.host, tls, limit.left(), alarm)
        return wire


async def _acquire(side: LoopSide) -> None:
    if side.slots is not None:
        await side.slots.acquire()
