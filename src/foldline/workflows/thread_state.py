"""`ThreadState`: what the records of a thread add up to, as far as agents and graphs share it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from foldline.workflows.interrupts import Interrupt

__all__ = ["ThreadState"]


@dataclass(slots=True, kw_only=True)
class ThreadState(ABC):
    """Where a thread stands: its last records, the questions that are open, and the answers to others."""

    step: int = 0
    head: str | None = None
    """The last record of the chain."""
    base: str | None = None
    """The last record after which a step comes; places of the step are named after it."""
    chain: set[str] = field(default_factory=set)
    """The records since then."""
    interrupts: list[Interrupt] = field(default_factory=list)
    asked: list[Interrupt] = field(default_factory=list)
    """The questions that were answered in the step under way; a wrong answer can be given again."""
    answers: dict[str, Any] = field(default_factory=dict)
    at: str | None = None

    @property
    @abstractmethod
    def is_unfinished(self) -> bool:
        """Whether a step comes."""

    @property
    def questions(self) -> list[Interrupt]:
        """The questions that an answer may be for."""
        return self.interrupts or self.asked

    def take_answers(self, answers: dict[str, Any]) -> None:
        """Add answers: nothing is open any more."""
        self.answers |= answers
        self.asked, self.interrupts = self.questions, []

    def forget_questions(self) -> None:
        """Come to another step: its questions are others."""
        self.interrupts, self.asked, self.answers = [], [], {}
