"""The response that every live transport gives: clocks, limits and decompression over an `Exchange`.

An `Exchange` is one request under way in some HTTP library; it knows how to start, read a raw piece and close, and
raises only foldline's errors and `Expired`. Everything the libraries have in common is here, once.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Protocol

from foldline.exceptions import ModelError
from foldline.transports import _faults
from foldline.transports._faults import Phase
from foldline.transports._wait import Expired
from foldline.transports.base import Request, Response, Timeouts, check_request

CODINGS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Content codings we undo, and the window that tells zlib which it is."""
IDENTITY = frozenset({"", "identity", "none", "utf-8", "utf8"})
"""What servers write there for a body that is not compressed; the last three are no codings, and harmless."""
PIECE = 256 * 1024
SLACK = 64 * 1024
"""Decompressed bytes that are never called a bomb, however small the input."""
LINGER = 0.02
"""Seconds that the end of a body may take once all that matters of it has come."""


class Clock:
    """How long the next wait may take, and which clock says so."""

    __slots__ = ("phase", "started", "timeouts", "waited")

    def __init__(self, timeouts: Timeouts) -> None:
        self.timeouts = timeouts
        self.started = time.monotonic()
        self.waited = 0.0
        """Seconds waited in reads since the last progress."""
        self.phase: Phase = "first_byte"

    def budget(self, phase: Phase) -> float | None:
        """Return the seconds left for a wait of this phase, the whole call's deadline included."""
        limit = self.timeouts.first_byte if phase == "first_byte" else self.timeouts.idle
        left = None if limit is None else limit - self.waited
        self.phase = phase
        total = self.timeouts.total
        if total is not None:
            rest = total - (time.monotonic() - self.started)
            if left is None or rest <= left:
                self.phase = "total"
                left = rest
        return None if left is None else max(left, 0.0)

    def limit(self, phase: Phase) -> float:
        """Return the seconds that were allowed."""
        return float(getattr(self.timeouts, phase, None) or 0.0)


class Exchange(Protocol):
    """One request under way in an HTTP library."""

    async def start(self, budget: float | None) -> tuple[int, Iterable[tuple[str, str]]]:
        """Send, and give status and headers (lower-case names)."""

    async def read(self, budget: float | None) -> bytes | None:
        """Return the next raw piece, or `None` at the end."""

    def rest(self) -> bytes | None:
        """Return all that is left of the body, where it is here to its end; None where it must be waited for."""

    async def close(self, *, finished: bool) -> None:
        """Free the connection: back to the pool if the body was read to its end, else closed at once."""


class Opening:
    """The context manager that `Transport.open` gives."""

    __slots__ = ("_begin", "_exchange", "_request", "_response")

    def __init__(self, request: Request, begin: Callable[[Request], Exchange]) -> None:
        self._request = request
        self._begin = begin
        self._response: HttpResponse | None = None

    async def __aenter__(self) -> Response:
        request = self._request
        check_request(request)
        clock = Clock(request.timeouts)
        exchange = self._begin(request)
        done = False
        try:
            budget = clock.budget("first_byte")
            try:
                status, pairs = await exchange.start(budget)
            except Expired as error:
                raise _faults.timed_out(request, clock.phase, clock.limit(clock.phase)) from error
            headers = _collect(request, pairs)
            if 300 <= status < 400 and "location" in headers and not request.returns_redirects:
                raise _faults.redirected(request, headers["location"])
            clock.waited = 0.0
            self._response = HttpResponse(request, exchange, clock, status, headers)
            done = True
        finally:
            if not done:
                await exchange.close(finished=False)
        return self._response

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._response is not None:
            await self._response.close()


def _collect(request: Request, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    size = 0
    for name, value in pairs:
        size += len(name) + len(value) + 4
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if size > request.limits.headers:
        raise _faults.too_large(request, "the headers", request.limits.headers)
    return headers


class HttpResponse:
    """An answer under way; see `foldline.transports.Response`."""

    __slots__ = ("_clock", "_exchange", "_state", "_until", "headers", "request", "status")

    def __init__(
        self,
        request: Request,
        exchange: Exchange,
        clock: Clock,
        status: int,
        headers: Mapping[str, str],
    ) -> None:
        self.request = request
        self.status = status
        self.headers = headers
        self._exchange = exchange
        self._clock = clock
        self._state = "new"
        self._until: float | None = None

    def __repr__(self) -> str:
        return f"<HttpResponse {self.status} {self._state}>"

    def progress(self) -> None:
        """Restart the idle clock of `chunks(progress_only=True)`."""
        self._clock.waited = 0.0

    def conclude(self) -> None:
        """Wait no longer for the body's end than a moment; a connection that did not get there is closed."""
        if self._until is None:
            self._until = time.monotonic() + LINGER

    async def chunks(self, *, progress_only: bool = False) -> AsyncGenerator[bytes, None]:
        """Return the body as it arrives, decompressed."""
        if self._state != "new":
            raise _faults.closed_already()
        self._state = "reading"
        try:
            unpacker = Unpacker.of(self)
            while (piece := await self._next(progress_only=progress_only)) is not None:
                if unpacker is None:
                    yield piece
                    continue
                for part in unpacker.feed(piece):
                    yield part
            if unpacker is not None and self._until is None:
                unpacker.end()
            if self._state == "reading":
                self._state = "finished"
        finally:
            await self.close()

    async def _next(self, *, progress_only: bool) -> bytes | None:
        clock = self._clock
        while self._state == "reading":
            began = time.monotonic()
            budget = clock.budget("idle")
            if self._until is not None:
                rest = max(self._until - began, 0.0)
                budget = rest if budget is None else min(budget, rest)
            try:
                piece = await self._exchange.read(budget)
            except (Expired, ModelError) as error:
                if self._until is not None:
                    self._state = "left"
                    return None
                if isinstance(error, Expired):
                    limit = clock.limit(clock.phase)
                    raise _faults.timed_out(self.request, clock.phase, limit) from error
                if self._state == "closed":
                    break
                raise
            if progress_only:
                clock.waited += time.monotonic() - began
            if piece is None or piece:
                return piece
        raise _faults.closed_while_reading(self.request)

    async def read(self, limit: int | None = None) -> bytes:
        """Read the whole body."""
        if self._state != "new" or "content-encoding" in self.headers:
            return await self.read_chunks(limit)
        whole = self._exchange.rest()
        if whole is None:
            return await self.read_chunks(limit)
        self._state = "finished"
        await self.close()
        limit = limit or self.request.limits.message
        if len(whole) > limit:
            raise _faults.too_large(self.request, "the answer", limit)
        return whole

    async def read_chunks(self, limit: int | None = None) -> bytes:
        """Read the whole body by `chunks`."""
        limit = limit or self.request.limits.message
        pieces: list[bytes] = []
        size = 0
        stream = self.chunks()
        try:
            async for piece in stream:
                size += len(piece)
                if size > limit:
                    raise _faults.too_large(self.request, "the answer", limit)
                pieces.append(piece)
        finally:
            await stream.aclose()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def read_error(self) -> bytes:
        """Read an error's body, as far as the limit and the connection go."""
        kept = bytearray()
        limit = self.request.limits.error_body
        stream = self.chunks()
        try:
            async for piece in stream:
                kept += piece
                if len(kept) >= limit:
                    break
        except ModelError:
            pass  # the status says more than how its explanation broke off
        finally:
            await stream.aclose()
        return bytes(kept[:limit])

    async def close(self) -> None:
        """Free the connection; harmless when done twice."""
        if self._state != "closed":
            finished = self._state == "finished"
            self._state = "closed"
            await self._exchange.close(finished=finished)


class Unpacker:
    """Undoes gzip or deflate piece by piece, never further than the limit."""

    __slots__ = ("_came", "_gave", "_request", "_window", "_zlib")

    def __init__(self, request: Request, window: int) -> None:
        self._request = request
        self._window = window
        self._zlib = zlib.decompressobj(window)
        self._came = 0
        self._gave = 0

    @classmethod
    def of(cls, response: HttpResponse) -> Unpacker | None:
        """Return the unpacker a response needs, or none."""
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if coding in IDENTITY:
            return None
        if coding not in CODINGS:
            raise _faults.malformed(
                response.request,
                "it sent a coding that was not asked for:",
                coding.encode("latin-1"),
            )
        return cls(response.request, CODINGS[coding])

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Undo one piece; what is sound before a fault is given first."""
        if not self._came and self._window == 15 and data[0] & 0x0F != 8:
            self._zlib = zlib.decompressobj(
                -15
            )  # "deflate" without its zlib header, as some servers send it
        self._came += len(data)
        while data:
            if self._zlib.eof:
                if self._window != 31:
                    break
                self._zlib = zlib.decompressobj(31)  # gzip may be several members in a row
            try:
                part = self._zlib.decompress(data, PIECE)
            except zlib.error as error:
                raise _faults.malformed(
                    self._request, f"its compressed body is corrupt ({error})"
                ) from error
            if part:
                self._count(len(part))
                yield part
            data = self._zlib.unconsumed_tail or self._zlib.unused_data

    def _count(self, size: int) -> None:
        self._gave += size
        limit = self._request.limits.inflation
        if self._gave > SLACK and self._gave > limit * self._came:
            raise _faults.too_large(self._request, "the compressed answer", limit, "times its size")

    def end(self) -> None:
        """Check that the compressed data came to its end."""
        if self._came and not self._zlib.eof:
            raise _faults.malformed(self._request, "its compressed body is cut short")
