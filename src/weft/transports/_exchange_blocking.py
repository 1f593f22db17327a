"""One request under way in the calling thread."""

from __future__ import annotations

import threading

from weft.transports import _faults
from weft.transports._exchange import (
    EXPLAINED,
    Budget,
    Head,
    Received,
    Side,
    check_tunnel,
    connecting,
    cut_off,
    explained,
)
from weft.transports._http1 import CutShort, Reader, write_connect
from weft.transports._route import Route
from weft.transports._tls import Tls
from weft.transports._wires import BlockingWire
from weft.transports.base import Request

__all__ = ["BlockingExchange"]


class BlockingExchange(Received):
    """One request under way in this thread."""

    __slots__ = (
        "_is_reused",
        "_message",
        "_request",
        "_route",
        "_side",
        "_slot",
        "_tls",
        "_wire",
    )

    def __init__(
        self,
        request: Request,
        route: Route,
        message: bytes,
        side: Side[BlockingWire, threading.Semaphore],
        tls: Tls,
    ) -> None:
        self._request = request
        self._route = route
        self._message = message
        self._side = side
        self._tls = tls
        self._reader = Reader(request.method, request.limits.headers)
        self._wire: BlockingWire | None = None
        self._first = b""
        self._slot = False
        self._is_reused = False
        """Whether the connection was kept from an earlier request, and nothing has come over it for this one."""

    async def start(self, budget: float | None) -> Head:
        """Send, and give status and headers."""
        left = Budget(budget)
        if self._side.slots is not None:
            self._take_slot(self._side.slots)
        reader = self._reader
        try:
            wire = self._send(left)
            while not reader.has_head:
                if data := wire.receive(left.left()):
                    self._is_reused = False
                    self._first = reader.feed(data)
                elif self._is_reused:
                    wire = self._send_anew(left)
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
        reader, wire = self._reader, self._wire
        if reader.done or wire is None:
            return None
        try:
            data = wire.receive(budget)
            if data:
                return reader.feed(data)
            reader.end()
        except EXPLAINED as error:
            raise explained(self._request, error, started=True) from error
        return None

    async def close(self, *, finished: bool) -> None:
        """Free the connection."""
        wire, self._wire = self._wire, None
        if wire is not None:
            if self._reader.done and self._reader.reusable:
                self._side.pool.put(self._route.key, wire)
            else:
                wire.close()
        if self._slot and self._side.slots is not None:
            self._slot = False
            self._side.slots.release()

    def _take_slot(self, slots: threading.Semaphore) -> None:
        self._slot = slots.acquire(timeout=self._side.patience)
        if not self._slot:
            raise _faults.timed_out(self._request, "pool", self._side.patience)

    def _send(self, left: Budget) -> BlockingWire:
        self._wire = wire = self._side.pool.take(self._route.key)
        if wire is None:
            return self._send_anew(left)
        self._is_reused = True
        try:
            wire.send(self._message, left.left())
        except OSError:
            return self._send_anew(left)
        return wire

    def _send_anew(self, left: Budget) -> BlockingWire:
        """Send over a new connection; what a server does not answer at all on a kept one, it has not read (F-H07)."""
        self._is_reused = False
        if self._wire is not None:
            self._wire.close()
        self._wire = wire = self._connect(left)
        wire.send(self._message, left.left())
        return wire

    def _connect(self, left: Budget) -> BlockingWire:
        route = self._route
        tls = self._tls.get() if route.secure else None
        with connecting(self._request, left):
            limit = Budget(left.at_most(self._request.timeouts.connect))
            direct = tls if route.proxy is None and route.address is None else None
            wire = BlockingWire.connect(*route.first_hop(), direct, limit.left())
            if tls is not None and route.address is not None:
                self._wire = wire
                wire.secure(route.host, tls, limit.left())
            if tls is not None and route.proxy is not None:
                self._wire = wire
                wire.send(write_connect(route.host, route.port, route.proxy), limit.left())
                reader = Reader("HEAD", self._request.limits.headers)
                while not reader.has_head:
                    reader.feed(wire.receive(limit.left()) or cut_off())
                check_tunnel(reader)
                wire.secure(route.host, tls, limit.left())
        return wire
