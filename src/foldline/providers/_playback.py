"""`PlaybackTransport`: answers a request with its result from a provider's batch. Nothing is sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from foldline.transports import Request

__all__ = ["PlaybackTransport"]


class RecordedResponse:
    """A response whose body is already there."""

    headers: Mapping[str, str] = {"content-type": "application/json"}

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    async def chunks(self, *, progress_only: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield the body."""
        yield self._body

    def progress(self) -> None:
        """Do nothing: no timeout applies."""

    def conclude(self) -> None:
        """Do nothing: no timeout applies."""

    async def read(self, limit: int | None = None) -> bytes:
        """Return the body."""
        return self._body

    async def read_error(self) -> bytes:
        """Return the body."""
        return self._body


class PlaybackTransport:
    """Answers every request with the same response."""

    def __init__(self, status: int, body: bytes) -> None:
        self._response = RecordedResponse(status, body)

    @asynccontextmanager
    async def open(
        self, request: Request, *, blocking: bool
    ) -> AsyncGenerator[RecordedResponse, None]:
        """Answer a request."""
        yield self._response

    def close(self) -> None:
        """Do nothing: no connection is open."""

    async def aclose(self) -> None:
        """Do nothing: no connection is open."""
