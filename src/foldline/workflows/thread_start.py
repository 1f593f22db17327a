"""`ThreadStart`: the start of a run of an agent or a graph: loads its thread and applies the caller's input.

An input begins a new round; None continues the thread (after a crash); `Command(resume=…)` answers its questions,
`Command(update=…)` changes the state and leaves questions open. The start is recorded first, so that of two processes
only one continues the thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from foldline.exceptions import UsageError
from foldline.workflows.interrupts import Command, answers_for
from foldline.workflows.run_context import RunContext

__all__ = ["ThreadStart"]

ContextT = TypeVar("ContextT", bound=RunContext[Any])


class ThreadStart(ABC, Generic[ContextT]):
    """The start of a run."""

    def __init__(self, context: ContextT) -> None:
        self.context = context

    async def open(self, value: object) -> None:
        """Load the thread and apply the caller's input."""
        context, is_fork = self.context, False
        if context.log is not None:
            at = None if context.is_inner else context.run.configurable.get("checkpoint_id")
            is_fork = await self.load(at, value)
            context.log.set_durability(context.run.kwargs.get("durability"))
        if context.is_inner and context.thread.head is not None and self.continues_nested():
            await self._continue_nested()
        elif isinstance(value, Command):
            await self._take_command(value)
        elif value is None:
            await self._continue(is_fork=is_fork)
        else:
            await self.take_input(value)

    # -- what agents and graphs implement

    @abstractmethod
    async def load(self, at: str | None, value: object) -> bool:
        """Load the thread; return whether the run continues from an earlier record than its last, as a fork."""

    @abstractmethod
    async def take_input(self, value: object) -> None:
        """Begin a new round with the caller's input."""

    @abstractmethod
    async def take_change(self, command: Command[Any]) -> None:
        """Change the state and add the jumps of a command to the next steps; open questions stay open."""

    @abstractmethod
    async def take_answers(self, answers: dict[str, Any], command: Command[Any] | None) -> None:
        """Record and apply the answers, with the state change of the same command."""

    @abstractmethod
    async def begin(self, kind: str) -> None:
        """Record that the run continues: "claim", or "fork" from an earlier record."""

    def continues_nested(self) -> bool:
        """Whether a nested run continues where it stopped when its step is called again."""
        return True

    # -- shared by both

    async def _continue(self, *, is_fork: bool) -> None:
        thread = self.context.thread
        if not thread.is_unfinished:
            raise UsageError(
                f"{self.context.name} was invoked with None, which continues an unfinished thread, "
                "and there is none"
            )
        if is_fork:  # later records of the thread belong to another branch, and are done again
            await self.begin("fork")
        elif not thread.interrupts:
            await self.begin("claim")

    async def _take_command(self, command: Command[Any]) -> None:
        questions = self.context.thread.questions
        changes = command.update is not None or bool(command.goto)
        if command.resume is None and changes:
            await self.take_change(command)
            return
        if not questions:
            raise UsageError("there is nothing to resume: this thread did not stop for an answer")
        await self.take_answers(
            answers_for(command.resume, questions), command if changes else None
        )

    async def _continue_nested(self) -> None:
        """Continue a nested run whose step was interrupted and is called again."""
        assert self.context.outer is not None
        outer_answers, thread = self.context.outer.answers, self.context.thread
        answers = {
            question.id: outer_answers[question.id]
            for question in thread.interrupts
            if question.id in outer_answers
        }
        if answers:
            await self.take_answers(answers, None)
        elif not thread.interrupts and thread.is_unfinished:
            await self.begin("claim")
