"""`ThreadState`: the state of a thread that agents and graphs share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from foldline.workflows.interrupts import Interrupt

__all__ = ["ThreadState"]


@dataclass(slots=True, kw_only=True)
class ThreadState(ABC):
    """The state of a thread: its last records, the open questions, and the answers to earlier ones."""

    step: int = 0
    head: str | None = None
    """The last record of the chain."""
    base: str | None = None
    """The last record that began a step; places in the step are named after it."""
    chain: set[str] = field(default_factory=set)
    """The records since then."""
    interrupts: list[Interrupt] = field(default_factory=list)
    answered_questions: list[Interrupt] = field(default_factory=list)
    """The questions that were answered in the current step; an answer can be replaced."""
    answers: dict[str, Any] = field(default_factory=dict)
    at: str | None = None

    @property
    @abstractmethod
    def is_unfinished(self) -> bool:
        """Whether there is a next step."""

    @property
    def questions(self) -> list[Interrupt]:
        """The questions that an answer may be for."""
        return self.interrupts or self.answered_questions

    def take_answers(self, answers: dict[str, Any]) -> None:
        """Add answers; no question is open afterwards."""
        self.answers |= answers
        self.answered_questions, self.interrupts = self.questions, []

    def clear_questions(self) -> None:
        """Remove the questions and answers at the start of another step."""
        self.interrupts, self.answered_questions, self.answers = [], [], {}
