"""The response of every live transport: timeouts, limits and decompression over an `Exchange`.

An `Exchange` is one request in progress in an HTTP library; it can start, read raw data and close, and raises only
foldline's errors and `Expired`. Everything that the libraries have in common is here.
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

ZLIB_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Supported content coding -> zlib's `wbits`."""
IDENTITY_CODINGS = frozenset({"", "identity", "none", "utf-8", "utf8"})
"""Values for a body that is not compressed; the last three are invalid but harmless."""
MAX_PART = 256 * 1024
INFLATION_ALLOWANCE = 64 * 1024
"""Decompressed bytes that are always accepted, for any size of the input."""
MAX_GZIP_MEMBERS = 1000
"""Members that a gzip body may have; an empty one costs its reader far more than its sender."""
END_WAIT = 0.02
"""Seconds to wait for the end of a body after its relevant content is complete."""


class Clock:
    """Computes how long the next wait may take, and which timeout limits it."""

    __slots__ = ("phase", "started", "timeouts", "waited")

    def __init__(self, timeouts: Timeouts) -> None:
        self.timeouts = timeouts
        self.started = time.monotonic()
        self.waited = 0.0
        """Seconds waited in reads since the last progress."""
        self.phase: Phase = "first_byte"

    def budget(self, phase: Phase) -> float | None:
        """Return the remaining seconds for a wait of this phase, within the deadline of the call."""
        limit = self.timeouts.first_byte if phase == "first_byte" else self.timeouts.idle
        remaining = None if limit is None else limit - self.waited
        self.phase = phase
        total = self.timeouts.total
        if total is not None:
            total_remaining = total - (time.monotonic() - self.started)
            if remaining is None or total_remaining <= remaining:
                self.phase = "total"
                remaining = total_remaining
        return None if remaining is None else max(remaining, 0.0)

    def limit(self, phase: Phase) -> float:
        """Return the configured seconds of a phase."""
        return float(getattr(self.timeouts, phase, None) or 0.0)


class Exchange(Protocol):
    """One request in progress in an HTTP library."""

    async def start(self, budget: float | None) -> tuple[int, Iterable[tuple[str, str]]]:
        """Send the request; return the status and headers (lower-case names)."""

    async def read(self, budget: float | None) -> bytes | None:
        """Return the next raw data, or `None` at the end."""

    def buffered_body(self) -> bytes | None:
        """Return the rest of the body if it has been received completely; None otherwise."""

    async def close(self, *, finished: bool) -> None:
        """Release the connection: to the pool if the body was read to its end, else close it."""


class ResponseContext:
    """The context manager that `Transport.open` returns."""

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
        is_open = False
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
            is_open = True
        finally:
            if not is_open:
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
    """A response whose body is being received; see `foldline.transports.Response`."""

    __slots__ = (
        "_clock", "_exchange", "_size_since_progress", "_state", "_until", "headers", "request", "status",
    )  # fmt: skip

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
        self._size_since_progress = 0

    def __repr__(self) -> str:
        return f"<HttpResponse {self.status} {self._state}>"

    def progress(self) -> None:
        """Restart the idle clock of `chunks(progress_only=True)`."""
        self._clock.waited = 0.0
        self._size_since_progress = 0

    def conclude(self) -> None:
        """Wait only briefly for the end of the body; if it does not come, the connection is closed."""
        if self._until is None:
            self._until = time.monotonic() + END_WAIT

    async def chunks(self, *, progress_only: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives, decompressed."""
        if self._state != "new":
            raise _faults.closed_already()
        self._state = "reading"
        try:
            decompressor = Decompressor.of(self)
            while (piece := await self._next(progress_only=progress_only)) is not None:
                if decompressor is None:
                    yield piece
                    continue
                for part in decompressor.feed(piece):
                    yield part
            if decompressor is not None and self._until is None:
                decompressor.end()
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
                remaining = max(self._until - began, 0.0)
                budget = remaining if budget is None else min(budget, remaining)
            try:
                piece = await self._exchange.read(budget)
            except (Expired, ModelError) as error:
                if self._until is not None:
                    self._state = "abandoned"
                    return None
                if isinstance(error, Expired):
                    limit = clock.limit(clock.phase)
                    raise _faults.timed_out(self.request, clock.phase, limit) from error
                if self._state == "closed":
                    break
                raise
            if progress_only:
                clock.waited += time.monotonic() - began
                self._count(piece)
            if piece is None or piece:
                return piece
        raise _faults.closed_while_reading(self.request)

    def _count(self, piece: bytes | None) -> None:
        """Raise if too much was received without progress: a server that floods is never waited for."""
        self._size_since_progress += len(piece or b"")
        if self._size_since_progress > self.request.limits.message and self._until is None:
            limit = self.request.limits.message
            raise _faults.too_large(
                self.request, "the data without content", limit, "bytes (Limits.message)"
            )

    async def read(self, limit: int | None = None) -> bytes:
        """Return the complete body."""
        if self._state != "new" or "content-encoding" in self.headers:
            return await self.read_chunks(limit)
        body = self._exchange.buffered_body()
        if body is None:
            return await self.read_chunks(limit)
        self._state = "finished"
        await self.close()
        limit = limit or self.request.limits.message
        if len(body) > limit:
            raise _faults.too_large(self.request, "the answer", limit)
        return body

    async def read_chunks(self, limit: int | None = None) -> bytes:
        """Return the complete body, read by `chunks`."""
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
        """Return the body of an error, as far as the limit and the connection allow."""
        body = bytearray()
        limit = self.request.limits.error_body
        stream = self.chunks()
        try:
            async for piece in stream:
                body += piece
                if len(body) >= limit:
                    break
        except ModelError:
            pass  # the status is more important than the failure to read its explanation
        finally:
            await stream.aclose()
        return bytes(body[:limit])

    async def close(self) -> None:
        """Release the connection; calling it again has no effect."""
        if self._state != "closed":
            finished = self._state == "finished"
            self._state = "closed"
            await self._exchange.close(finished=finished)


class Decompressor:
    """Decompresses gzip or deflate incrementally, up to a limit."""

    __slots__ = ("_bytes_in", "_bytes_out", "_members", "_request", "_window", "_zlib")

    def __init__(self, request: Request, window: int) -> None:
        self._request = request
        self._window = window
        self._zlib = zlib.decompressobj(window)
        self._bytes_in = 0
        self._bytes_out = 0
        self._members = 1

    @classmethod
    def of(cls, response: HttpResponse) -> Decompressor | None:
        """Return the decompressor for a response, or None if it is not compressed."""
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if coding in IDENTITY_CODINGS:
            return None
        if coding not in ZLIB_WINDOWS:
            raise _faults.malformed(
                response.request,
                "it sent a coding that was not asked for:",
                coding.encode("latin-1"),
            )
        return cls(response.request, ZLIB_WINDOWS[coding])

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed data of one piece; data before a fault is yielded first."""
        if not self._bytes_in and self._window == 15 and data[0] & 0x0F != 8:
            self._zlib = zlib.decompressobj(
                -15
            )  # "deflate" without its zlib header, as some servers send it
        self._bytes_in += len(data)
        while data:
            if self._zlib.eof:
                if self._window != 31:
                    break
                self._begin_member()
            try:
                part = self._zlib.decompress(data, MAX_PART)
            except zlib.error as error:
                raise _faults.malformed(
                    self._request, f"its compressed body is corrupt ({error})"
                ) from error
            if part:
                self._count(len(part))
                yield part
            data = self._zlib.unconsumed_tail or self._zlib.unused_data

    def _begin_member(self) -> None:
        """Begin the next member of gzip data."""
        self._members += 1
        if self._members > MAX_GZIP_MEMBERS:
            raise _faults.too_large(
                self._request, "the compressed answer", MAX_GZIP_MEMBERS, "gzip members"
            )
        self._zlib = zlib.decompressobj(31)

    def _count(self, size: int) -> None:
        self._bytes_out += size
        limit = self._request.limits.inflation
        if self._bytes_out > INFLATION_ALLOWANCE and self._bytes_out > limit * self._bytes_in:
            raise _faults.too_large(self._request, "the compressed answer", limit, "times its size")

    def end(self) -> None:
        """Raise if the compressed data is incomplete."""
        if self._bytes_in and not self._zlib.eof:
            raise _faults.malformed(self._request, "its compressed body is cut short")
