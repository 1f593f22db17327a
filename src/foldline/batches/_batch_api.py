"""The protocol of a provider's batch API, which `providers/*/batches.py` implement. No I/O here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from foldline._io import IO
from foldline.batches.records import Part

__all__ = ["BatchAnswer", "BatchApi", "BatchStatus"]


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The state of a batch at the provider."""

    state: Literal["running", "ended", "failed"]
    """`failed`: the provider refused the batch, and there are no results."""
    word: str
    """The provider's own status: "completed", "expired"."""
    finished: int = 0
    """The number of answered requests, where the provider reports it."""
    details: Any = None
    """The provider's data that `answers` needs."""


class BatchAnswer(NamedTuple):
    """The result of one request of a batch."""

    custom_id: str
    status: int
    """The HTTP status that a call would have had; 0 where the request was not tried (expired, cancelled)."""
    body: Any = None
    reason: str = ""


class BatchApi(Protocol):
    """Batches of one provider, for one model."""

    most_requests: int
    most_bytes: int

    def encode_line(self, custom_id: str, path: str, body: object) -> bytes:
        """Return a request as one line of a batch."""

    async def submit(self, lines: list[bytes], part: Part, path: str, io: IO) -> str:
        """Send a batch; return the provider's id."""

    async def find(self, part: Part, known: Collection[str], io: IO) -> str | None:
        """Return the provider's id of a batch that may have been sent before a crash; None where it was not."""

    async def status(self, provider_id: str, io: IO) -> BatchStatus:
        """Return the state of a batch."""

    def answers(self, status: BatchStatus, io: IO) -> AsyncGenerator[BatchAnswer, None]:
        """Read the results of a batch that has ended, in any order."""

    async def cancel(self, provider_id: str, io: IO) -> None:
        """Ask the provider to stop a batch; finished answers can still be read."""
