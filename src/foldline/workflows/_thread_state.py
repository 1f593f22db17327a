"""`ThreadState`: the state of a thread that agents and graphs share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from foldline.workflows.interrupts import Interrupt

__all__ = ["FIRST_BRANCH", "ThreadState"]


FIRST_BRANCH = "0"


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
    branch: str = FIRST_BRANCH
    seq: int = -1
    """The number of the last record in its branch."""
    lineage: list[tuple[str, int]] = field(default_factory=list)
    """How far each older branch counts: its name, and the number of its last record that this one has."""
    base_branch: str = FIRST_BRANCH
    base_seq: int = -1
    fork: list[tuple[str, int]] | None = None
    """The lineage of the branch that the next record begins; None if it continues the branch."""
    interrupts: list[Interrupt] = field(default_factory=list)
    inbox: str | None = None
    """The last message to the thread that it has taken."""
    answered_at: str | None = None
    """When the questions of the current step were answered."""
    answers: dict[str, Any] = field(default_factory=dict)
    at: str | None = None
    indexes: dict[str, Any] = field(default_factory=dict)
    """What is known about long lists of the state, so that adding to them costs what is new."""

    @property
    @abstractmethod
    def is_unfinished(self) -> bool:
        """Whether there is a next step."""

    # -- positions

    def advance(self, id: str, lineage: Sequence[Sequence[Any]] | None = None) -> None:
        """Make a record the last one; with a lineage it begins a branch."""
        self.head = id
        self.chain.add(id)
        if lineage is None:
            self.seq += 1
        else:
            self.branch, self.seq = id, 0
            self.lineage = [(str(branch), int(last)) for branch, last in lineage]

    def begin_branch(self, *, with_step: bool) -> None:
        """Let the next record begin a branch: after this record, or in place of the step that its base began."""
        last = self.seq if with_step else self.base_seq - 1
        branch = self.branch if with_step else self.base_branch
        self.fork = [*self.lineage, (branch, last)]

    def take_fork(self) -> list[tuple[str, int]] | None:
        """Return the lineage of the branch that the next record begins, once; None if it begins none."""
        fork, self.fork = self.fork, None
        return fork

    def mark(self) -> object:
        """Return the position of the run, which a nested log stores in its records."""
        return [self.branch, self.seq]

    def covers(self, mark: object) -> bool:
        """Whether a nested record was written on this branch."""
        if isinstance(mark, str):  # form 1: the id of a record of the current step
            return mark in self.chain
        if not (isinstance(mark, list) and len(mark) == 2):
            return False
        branch, seq = mark
        return branch == self.branch or any(
            branch == name and seq <= last for name, last in self.lineage
        )

    # -- questions

    @property
    def questions(self) -> list[Interrupt]:
        """The questions that an answer may be for."""
        return self.interrupts

    def open_questions(self, questions: Sequence[Interrupt]) -> None:
        """Open the questions at which a run stopped; an earlier answer to one of them did not fit it."""
        self.interrupts = list(questions)
        for question in questions:
            self.answers.pop(question.id, None)

    def take_answers(self, answers: dict[str, Any], at: str | None) -> None:
        """Add answers; other questions stay open."""
        self.answers |= answers
        self.answered_at = at
        self.interrupts = [question for question in self.interrupts if question.id not in answers]

    def clear_questions(self) -> None:
        """Remove the questions and answers at the start of another step."""
        self.interrupts, self.answered_at, self.answers = [], None, {}
