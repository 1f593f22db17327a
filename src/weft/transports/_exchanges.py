"""One request under way over the native transport's wires, in each colour.

The two classes do the same steps in the same order; they differ only in how a step waits. Why a step failed is said
in one place for both (`explained`).
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from weft.exceptions import UsageError, WeftError
from weft.transports import _faults
from weft.transports._http1 import BadHttp, CutShort, HeadTooLarge, Reader, write_connect
from weft.transports._loops import PerLoop
from weft.transports._pool import Key, Pool, W
from weft.transports._proxies import proxy_for
from weft.transports._tls import Tls
from weft.transports._wait import Alarm, Bell, Expired
from weft.transports._wires import AsyncWire, BlockingWire
from weft.transports.base import HttpOptions, Request

S = TypeVar("S", threading.Semaphore, asyncio.Semaphore)
Head = tuple[int, Iterable[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes: its host, and the proxy on the way."""

    host: str
    port: int
    secure: bool
    proxy: str | None
    address: str | None = None
    key: Key = field(init=False, repr=False, compare=False)
    """What connections are kept by."""

    def __post_init__(self) -> None:
        key = (self.host, self.port, self.secure, self.proxy or self.address)
        object.__setattr__(self, "key", key)

    @classmethod
    def of(cls, options: HttpOptions, request: Request) -> Route:
        """Read the route off a URL."""
        proxy = proxy_for(request.url, options) if options.trust_env else options.proxy
        route = _route(request.url, proxy)
        if request.address is None:
            return route
        if route.proxy is not None:
            raise UsageError("a request to one fixed address cannot go through a proxy")
        return replace(route, address=request.address)

    @classmethod
    def _read(cls, url: str, proxy: str | None) -> Route:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        if proxy is not None and urlsplit(proxy).scheme != "http":
            raise UsageError(
                "NativeTransport knows http:// proxies: use PyreqwestTransport for others"
            )
        return cls(parts.hostname or "", parts.port or (443 if secure else 80), secure, proxy)

    def first_hop(self) -> tuple[str, int]:
        """Where to connect to."""
        if self.proxy is None:
            return self.address or self.host, self.port
        parts = urlsplit(self.proxy)
        return parts.hostname or "", parts.port or 80


@lru_cache(maxsize=256)
def _route(url: str, proxy: str | None) -> Route:
    return Route._read(url, proxy)


@dataclass(slots=True)
class Side(Generic[W, S]):
    """What the calls of one colour share: idle connections and slots."""

    pool: Pool[W]
    slots: S | None
    patience: float


@dataclass(slots=True)
class LoopSide(Side[AsyncWire, asyncio.Semaphore]):
    """What the calls on one loop share."""

    bell: Bell = field(default_factory=Bell)


class Budget:
    """Seconds left of a start that has several steps."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """Give the seconds left, never less than none."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def at_most(self, seconds: float | None) -> float | None:
        """Give the seconds left, but no more than these."""
        left = self.left()
        return seconds if left is None else left if seconds is None else min(left, seconds)


EXPLAINED = (HeadTooLarge, BadHttp, CutShort, OSError)
"""What a step may fail with, for `explained`."""


def explained(request: Request, error: Exception, *, started: bool) -> WeftError:
    """Say in weft's words why a step failed."""
    if isinstance(error, HeadTooLarge):
        return _faults.too_large(request, "the headers", request.limits.headers)
    if isinstance(error, BadHttp):
        return _faults.malformed(request, str(error))
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"its certificate is not trusted ({error.verify_message})"
    else:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    fault = _faults.interrupted if started else _faults.not_reached
    return fault(request, why)


@contextmanager
def connecting(request: Request, budget: Budget) -> Iterator[None]:
    """Tell the clock of connecting from the clock of the call."""
    try:
        yield
    except Expired:
        left, limit = budget.left(), request.timeouts.connect
        if limit is None or left == 0.0:
            raise
        raise _faults.timed_out(request, "connect", limit) from None


def check_tunnel(reader: Reader) -> None:
    """Check what a proxy said to CONNECT."""
    if reader.status != 200:
        raise CutShort(f"the proxy answered {reader.status}")


class BlockingExchange:
    """One request under way in this thread."""

    __slots__ = (
        "_first",
        "_is_reused",
        "_message",
        "_reader",
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

    def rest(self) -> bytes | None:
        """Give the body if all of it came with the head, as short answers do."""
        if not self._reader.done:
            return None
        piece, self._first = self._first, b""
        return piece

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
                    reader.feed(wire.receive(limit.left()) or _raise_cut())
                check_tunnel(reader)
                wire.secure(route.host, tls, limit.left())
        return wire


class AsyncExchange:
    """One request under way on the running loop."""

    __slots__ = (
        "_alarm", "_first", "_is_reused", "_message", "_per_loop", "_reader", "_request", "_route", "_side",
        "_slot", "_tls", "_wire",
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

    def rest(self) -> bytes | None:
        """Give the body if all of it came with the head, as short answers do."""
        if not self._reader.done:
            return None
        piece, self._first = self._first, b""
        return piece

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
                    reader.feed(await wire.receive(limit.left(), side.bell) or _raise_cut())
                check_tunnel(reader)
                await wire.secure(route.host, tls, limit.left(), alarm)
        return wire


async def _acquire(side: LoopSide) -> None:
    if side.slots is not None:
        await side.slots.acquire()


def _raise_cut() -> bytes:
    raise CutShort("the proxy closed the connection")
