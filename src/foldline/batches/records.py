"""What a job is made of, as values: items and their states, results, rows that were no input, the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, NamedTuple

__all__ = [
    "AnswerSource",
    "BatchReport",
    "BatchResult",
    "Item",
    "ItemOutcome",
    "Part",
    "RejectedRow",
    "State",
]

AnswerSource = Literal["live", "batch", "copy"]
"""Where an answer is from: a call, the provider's batch, or an item with the same content."""


class State(IntEnum):
    """Where an item stands."""

    WAITING = 0
    IN_CALL = 1
    """A live call is under way, or was when the process died."""
    IN_BATCH = 2
    """It is in a batch of the provider."""
    DONE = 3
    FAILED = 4
    COPY = 5
    """Its content is that of an earlier item, whose answer is its own."""
    CANCELLED = 6


class Item(NamedTuple):
    """An input as it is taken from the store to be asked."""

    number: int
    key: str | None
    input: str
    attempts: int
    prompt: str | None = None


class ItemOutcome(NamedTuple):
    """What became of one item, as it is written."""

    number: int
    output: str | None
    error: str | None
    source: AnswerSource
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    is_retryable: bool = False
    was_called: bool = True
    """False where it was taken and put back: that is no attempt."""


class Part(NamedTuple):
    """Some items that went, or will go, to the provider as one batch."""

    id: int
    tag: str
    provider_id: str | None
    size: int
    made_at: float


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of one input: `output`, or `error` in words."""

    key: str
    """What names the input: yours (`key=…`), else its number from 0."""
    number: int
    output: Any
    error: str | None = None
    source: AnswerSource = "live"
    attempts: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """None, and not 0, where it is not known."""

    @property
    def is_done(self) -> bool:
        """Whether there is an answer."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that is no input: where it was, why it was refused, how it began."""

    place: str
    reason: str
    text: str = ""


@dataclass(slots=True)
class BatchReport:
    """Where a job stands, and what it used."""

    name: str
    items: int = 0
    done: int = 0
    failed: int = 0
    waiting: int = 0
    sent: int = 0
    """Items in a batch of the provider now."""
    copies: int = 0
    """Items with the content of another: answered with it."""
    cancelled: int = 0
    rejected: int = 0
    """Rows that are no input: `job.rejected()` lists them."""
    repeated_calls: int = 0
    """Live calls that may have been under way when a process died, and were made again."""
    missing: int = 0
    """Requests that a provider's batch gave no result for, and that were sent again."""
    parts: int = 0
    """Batches that were sent to the provider."""
    input_tokens: int = 0
    output_tokens: int = 0
    known_cost: float = 0.0
    unpriced: int = 0
    """Answered items of which it is not known what they cost."""
    seconds: float = 0.0
    """How long this process has worked on it."""
    errors: dict[str, int] = field(default_factory=dict)
    """The first words of an error -> how many items have it (the fifty most frequent)."""

    @property
    def cost(self) -> float | None:
        """What the answers cost; None, and not 0, where the price of one is not known."""
        return None if self.unpriced else self.known_cost

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to be asked."""
        return not (self.waiting or self.sent)

    @property
    def finished(self) -> int:
        """How many items are at their end."""
        return self.done + self.failed + self.cancelled

    @property
    def seconds_left(self) -> float | None:
        """About how long it takes at the speed so far; None where nothing is finished yet."""
        left = self.items - self.finished
        return self.seconds / self.finished * left if self.finished and self.seconds else None
