"""What a provider's batch API must do for a job: the protocol that `providers/*/batches.py` keep. No I/O here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from foldline._io import IO
from foldline.batches.records import Part

__all__ = ["BatchAnswer", "BatchApi", "BatchStatus"]


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How far a batch of the provider is."""

    state: Literal["running", "ended", "failed"]
    """`failed`: the provider refused it as a whole, and there are no results."""
    word: str
    """The provider's own word: "completed", "expired"."""
    finished: int = 0
    """Requests that are answered, where the provider says it."""
    details: Any = None
    """What `answers` needs to know."""


class BatchAnswer(NamedTuple):
    """What a batch says of one request."""

    custom_id: str
    status: int
    """The HTTP status that a call would have had; 0 where the request was not tried (expired, cancelled)."""
    body: Any = None
    reason: str = ""


class BatchApi(Protocol):
    """Batches of one provider, for one model."""

    most_requests: int
    most_bytes: int

    def encode_line(self, custom_id: str, path: str, body: Any) -> bytes:  # noqa: ANN401  JSON, or whatever was given
        """Return a request as one line of a batch."""

    async def submit(self, lines: list[bytes], part: Part, path: str, io: IO) -> str:
        """Send a batch; return what the provider calls it."""

    async def find(self, part: Part, known: Collection[str], io: IO) -> str | None:
        """Return what the provider calls a batch that may have been sent before a crash; None where it was not."""

    async def status(self, provider_id: str, io: IO) -> BatchStatus:
        """Ask how far a batch is."""

    def answers(self, status: BatchStatus, io: IO) -> AsyncGenerator[BatchAnswer, None]:
        """Read the results of a batch that has ended, in any order."""

    async def cancel(self, provider_id: str, io: IO) -> None:
        """Ask the provider to stop a batch; what is answered already can still be read."""
