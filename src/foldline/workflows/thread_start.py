"""`ThreadStart`: how a run of an agent or a graph begins: what its thread holds, and what the caller gives now.

An input begins a new round; None carries on where the thread stands (after a crash); `Command(resume=…)` answers what
it stopped for, `Command(update=…)` changes the state and leaves open what is open. Whoever begins writes that down
first, so that of two processes only one carries on.
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
    """The beginning of a run."""

    def __init__(self, context: ContextT) -> None:
        self.context = context

    async def open(self, value: object) -> None:
        """Read the thread and take what the caller gives."""
        context, is_fork = self.context, False
        if context.log is not None:
            at = None if context.is_inner else context.run.configurable.get("checkpoint_id")
            is_fork = await self.load(at, value)
            context.log.set_durability(context.run.kwargs.get("durability"))
        if context.is_inner and context.thread.head is not None and self.goes_on_inside():
            await self._carry_on_inside()
        elif isinstance(value, Command):
            await self._take_command(value)
        elif value is None:
            await self._carry_on(is_fork=is_fork)
        else:
            await self.take_input(value)

    # -- what agents and graphs do each in their way

    @abstractmethod
    async def load(self, at: str | None, value: object) -> bool:
        """Read the thread; return whether None goes on from an earlier record than its last, as a fork."""

    @abstractmethod
    async def take_input(self, value: object) -> None:
        """Begin a new round with the caller's input."""

    @abstractmethod
    async def take_change(self, command: Command[Any]) -> None:
        """Change the state, and go where a command says besides what comes anyhow; what is open stays open."""

    @abstractmethod
    async def take_answers(self, answers: dict[str, Any], command: Command[Any] | None) -> None:
        """Write down the answers, with the change of the state in the same command, and take them."""

    @abstractmethod
    async def begin(self, kind: str) -> None:
        """Write down that somebody goes on: "claim", or "fork" from an earlier record."""

    def goes_on_inside(self) -> bool:
        """Whether a run inside a step goes on with what it was, when the step is called again."""
        return True

    # -- the same for both

    async def _carry_on(self, *, is_fork: bool) -> None:
        thread = self.context.thread
        if not thread.is_unfinished:
            raise UsageError(
                f"{self.context.name} was invoked with None, which carries on with an unfinished thread, "
                "and there is none"
            )
        if (
            is_fork
        ):  # what the thread did after this point belongs to another branch, and is done anew
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

    async def _carry_on_inside(self) -> None:
        """A step that was interrupted runs again and calls this run again: it goes on where it was."""
        assert self.context.outer is not None
        known, thread = self.context.outer.answers, self.context.thread
        answers = {one.id: known[one.id] for one in thread.interrupts if one.id in known}
        if answers:
            await self.take_answers(answers, None)
        elif not thread.interrupts and thread.is_unfinished:
            await self.begin("claim")
