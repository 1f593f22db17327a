"""`ThreadStart`: the start of a run of an agent or a graph: loads its thread and applies the caller's input.

An input begins a new round; None continues the thread (after a crash); `Command(resume=…)` answers its questions,
`Command(update=…)` changes the state and leaves questions open. The start is recorded first, so that of two processes
only one continues the thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from foldline.exceptions import EmptyInputError
from foldline.workflows._decisions import Decision, check_reviews
from foldline.workflows._inbox import Message
from foldline.workflows._run_context import RunContext
from foldline.workflows.interrupts import Command, answers_for, valid_answers

__all__ = ["ThreadStart"]

ContextT = TypeVar("ContextT", bound=RunContext[Any])


class ThreadStart(ABC, Generic[ContextT]):
    """The start of a run."""

    def __init__(self, context: ContextT) -> None:
        self.context = context

    async def open(self, value: object) -> None:
        """Load the thread and apply the caller's input."""
        context, is_fork, at = self.context, False, None
        if context.log is not None:
            at = context.take_fork()
            if not context.is_inner:
                await self._claim(at, value)
            is_fork = await self.load(at, None if context.is_inner else value)
            context.keep_old_place()
            context.log.set_durability(context.run.kwargs.get("durability"))
        if context.is_inner and (at is not None or self.continues_nested()):
            await self._continue_nested(is_fork=is_fork)
        elif isinstance(value, Message):
            await self._wake()
        elif isinstance(value, Command):
            await self._take_command(value)
        elif value is None:
            await self._continue(is_fork=is_fork)
        else:
            await self.take_input(value)

    async def _claim(self, at: str | None, value: object) -> None:
        """Own the thread; an answer that comes while another run uses the first one is refused as such."""
        context = self.context
        assert context.log is not None
        log, owner, command = context.log, context.log.owner, value
        if not isinstance(command, Command) or command.resume is None:
            await owner.claim(context.io)
            return

        async def check() -> bool:
            await self.load(at, command)
            self._answers(command)
            return log.ends_with_question

        await owner.claim_to_answer(context.io, check)

    def _answers(self, command: Command[Any]) -> dict[str, Any]:
        """Return the answers of a command; raise if there is no question for one of them, or none fits its schema."""
        context, thread = self.context, self.context.thread
        answers = answers_for(command.resume, thread.questions, thread.answered_at)
        check_reviews(thread.questions, answers, self.check_decision)
        answers, context.invalid_answer = valid_answers(answers, thread.questions)
        return answers

    def check_decision(self, name: str, decision: Decision) -> None:
        """Raise `UsageError` if a decision about a call of the tool `name` cannot be followed."""

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
        return self.context.thread.head is not None

    # -- shared by both

    async def _continue(self, *, is_fork: bool) -> None:
        thread = self.context.thread
        if thread.head is None:
            raise EmptyInputError(
                f"{self.context.name} was called with None, which continues a thread, and there is none: pass an input"
            )
        if not thread.is_unfinished:
            return  # what is finished is not run again
        if is_fork:  # later records of the thread belong to another branch, and are done again
            await self.begin("fork")
        elif not thread.interrupts:
            await self.begin("claim")

    async def _wake(self) -> None:
        """Continue a thread for a message, which the first step takes; a question or a breakpoint stays."""
        thread = self.context.thread
        if self.stands_at_breakpoint():
            self.stay()
        elif thread.is_unfinished and not thread.interrupts:
            await self.begin("claim")

    def stay(self) -> None:
        """Stay at a breakpoint."""

    async def _take_command(self, command: Command[Any]) -> None:
        thread = self.context.thread
        changes = command.update is not None or bool(command.goto)
        if changes and (command.resume is None or self.stands_at_breakpoint()):
            await self.take_change(command)
        elif self.stands_at_breakpoint():
            await self.begin("claim")
        else:
            await self.take_answers(self._answers(command), command if changes else None)
            thread.interrupts = []  # those that stay open are asked again

    def stands_at_breakpoint(self) -> bool:
        """Whether the run stopped at a breakpoint, where it continues with any answer."""
        return False

    async def _continue_nested(self, *, is_fork: bool) -> None:
        """Continue a nested run whose step was interrupted and is called again."""
        if is_fork:
            await self.begin("fork")
            return
        assert self.context.outer is not None
        outer_answers, thread = self.context.outer.answers, self.context.thread
        answers = {
            question.id: outer_answers[question.id]
            for question in thread.questions
            if question.id in outer_answers
        }
        if answers:
            await self.take_answers(answers, None)
            thread.interrupts = []
        elif not thread.interrupts and thread.is_unfinished:
            await self.begin("claim")
