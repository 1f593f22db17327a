"""`PlaybackTransport`: answers a request with what came for it in a batch of the provider. Nothing is sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from foldline.transports import Request

__all__ = ["PlaybackTransport"]


class PlayedResponse:
    """An answer that is here already."""

    headers: Mapping[str, str] = {"content-type": "application/json"}

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    async def chunks(self, *, progress_only: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield the body."""
        yield self._body

    def progress(self) -> None:
        """Nothing is waited for."""

    def conclude(self) -> None:
        """Nothing is waited for."""

    async def read(self, limit: int | None = None) -> bytes:
        """Return the body."""
        return self._body

    async def read_error(self) -> bytes:
        """Return the body."""
        return self._body


class PlaybackTransport:
    """Gives every request the same answer."""

    def __init__(self, status: int, body: bytes) -> None:
        self._response = PlayedResponse(status, body)

    @asynccontextmanager
    async def open(
        self, request: Request, *, blocking: bool
    ) -> AsyncGenerator[PlayedResponse, None]:
        """Answer a request."""
        yield self._response

    def close(self) -> None:
        """Nothing is open."""

    async def aclose(self) -> None:
        """Nothing is open."""
