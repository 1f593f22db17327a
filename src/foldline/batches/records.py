"""The records of a job: items and their states, results, rejected rows, the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, NamedTuple

__all__ = [
    "BatchReport",
    "BatchResult",
    "RejectedRow",
]

AnswerSource = Literal["live", "batch", "copy"]
"""The source of an outcome: a call, the provider's batch, or an item with the same content."""


class ItemState(IntEnum):
    """The state of an item."""

    WAITING = 0
    IN_CALL = 1
    """A live call is in progress, or was when the process died."""
    IN_BATCH = 2
    """It is in a batch of the provider."""
    DONE = 3
    FAILED = 4
    COPY = 5
    """It has the content of an earlier item, and gets its answer."""
    CANCELLED = 6


class BatchItem(NamedTuple):
    """An input that is taken from the store for a call."""

    number: int
    key: str | None
    input: str
    attempts: int
    prompt: str | None = None


class ItemOutcome(NamedTuple):
    """The outcome of one item, as the store writes it."""

    number: int
    output: str | None
    error: str | None
    source: AnswerSource | None
    """None where the item was never sent: it could not be encoded."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    is_retryable: bool = False
    was_called: bool = True
    """False where the item was put back, which does not count as an attempt."""


class Part(NamedTuple):
    """Items that are, or will be, one batch of the provider."""

    id: int
    tag: str
    provider_id: str | None
    size: int
    made_at: float


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one input: `output`, or the text of an `error`."""

    key: str
    """The key of the input: by `key=…`, else its number from 0."""
    number: int
    output: Any
    error: str | None = None
    source: AnswerSource | None = None
    """None where the item was never sent: it could not be encoded."""
    attempts: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """None, and not 0, where it is not known."""

    @property
    def is_done(self) -> bool:
        """Whether the item has an answer."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A rejected row: its place, the reason, and its beginning."""

    place: str
    reason: str
    text: str = ""


@dataclass(slots=True)
class BatchReport:
    """The state of a job, and its usage."""

    name: str
    items: int = 0
    done: int = 0
    failed: int = 0
    waiting: int = 0
    sent: int = 0
    """Items in a batch of the provider now."""
    copies: int = 0
    """Items with the content of another, which get its answer."""
    cancelled: int = 0
    rejected: int = 0
    """Rejected rows: `job.rejected()` lists them."""
    repeated_calls: int = 0
    """Live calls that were in progress when a process died, and were repeated."""
    missing: int = 0
    """Requests without a result in a provider's batch, which were sent again."""
    parts: int = 0
    """Batches that were sent to the provider."""
    input_tokens: int = 0
    output_tokens: int = 0
    known_cost: float = 0.0
    unpriced: int = 0
    """Answered items without a known cost."""
    seconds: float = 0.0
    """Seconds that this process has worked on the job."""
    errors: dict[str, int] = field(default_factory=dict)
    """The first words of an error -> how many items have it (the fifty most frequent)."""

    @property
    def cost(self) -> float | None:
        """The cost of the answers; None, and not 0, where a price is not known."""
        return None if self.unpriced else self.known_cost

    @property
    def is_finished(self) -> bool:
        """Whether no item waits or is in a batch."""
        return not (self.waiting or self.sent)

    @property
    def finished(self) -> int:
        """The number of finished items."""
        return self.done + self.failed + self.cancelled

    @property
    def seconds_left(self) -> float | None:
        """The estimated remaining seconds; None where nothing is finished yet."""
        remaining = self.items - self.finished
        return self.seconds / self.finished * remaining if self.finished and self.seconds else None
