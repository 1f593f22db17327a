"""`RunLoop`: one run of an agent or a graph: steps, each stored before the next, until the end or a question.

`events()` yields the events of the run; without a streaming caller it yields none, and only `result()` is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from foldline.workflows.events import FlowEvent
from foldline.workflows.interrupts import (
    FlowInterrupt,
    Interrupt,
    is_invalid_resume,
    reopened_questions,
)
from foldline.workflows.nesting import Parent
from foldline.workflows.run_context import RunContext

__all__ = ["RunLoop"]

ContextT = TypeVar("ContextT", bound=RunContext[Any])


class RunLoop(ABC, Generic[ContextT]):
    """One run: its events, and its final state."""

    def __init__(self, context: ContextT) -> None:
        self.context = context

    # -- what agents and graphs implement

    @abstractmethod
    async def open(self, value: object) -> None:
        """Load the thread and apply the caller's input."""

    @abstractmethod
    def has_next_step(self) -> bool:
        """Whether there is another step."""

    @abstractmethod
    def step_events(self) -> AsyncGenerator[FlowEvent, None]:
        """Run one step and store it; yield its events. Raise `FlowInterrupt` if it stops for a person."""

    @abstractmethod
    async def keep_questions(self, interrupts: list[Interrupt]) -> None:
        """Record that the run stopped for these questions."""

    @abstractmethod
    def result(self) -> Any:  # noqa: ANN401  the state in the form of its schema
        """Return the public part of the state, with the open questions."""

    def partial_result(self) -> object:
        """Return the state of a run that the caller abandoned."""
        return self.result()

    def fail(self, error: BaseException) -> None:
        """Publish that the run failed."""

    def end(self) -> None:
        """Publish that the run has ended or was interrupted."""

    # -- shared by both

    @property
    def outer(self) -> Parent | None:
        """The step of another run that called this one."""
        return self.context.outer

    @property
    def namespace(self) -> tuple[str, ...]:
        """The namespace of this run inside the outer runs."""
        return self.context.namespace

    @property
    def is_inner(self) -> bool:
        """Whether this run is stored as a part of the outer run."""
        return self.context.is_inner

    @property
    def interrupts(self) -> list[Interrupt]:
        """The open questions."""
        interrupts: list[Interrupt] = self.context.thread.interrupts
        return interrupts

    @property
    def is_at_breakpoint(self) -> bool:
        """Whether the run stopped at a breakpoint."""
        return False

    async def events(self, value: object) -> AsyncGenerator[FlowEvent, None]:
        """Run; yield the events."""
        output = self.context.output
        try:
            await self.open(value)
            for event in output.take_buffered():
                yield event
            async with aclosing(self._steps()) as events:
                async for event in events:
                    yield event
        except BaseException as error:
            self.fail(error)
            if isinstance(error, Exception):
                for event in output.take_buffered():
                    yield event
            raise
        finally:
            await self.context.release()
        self.end()
        for event in output.take_buffered():
            yield event

    async def _steps(self) -> AsyncGenerator[FlowEvent, None]:
        thread = self.context.thread
        try:
            while self.has_next_step() and not thread.interrupts:
                async with aclosing(self.step_events()) as events:
                    async for event in events:
                        yield event
                for event in self.context.output.take_buffered():
                    yield event
        except FlowInterrupt as stop:
            thread.interrupts = stop.interrupts
            await self.keep_questions(stop.interrupts)
        except Exception as error:
            if is_invalid_resume(error):  # its question stays open
                thread.interrupts = reopened_questions(error)
                await self.keep_questions(thread.interrupts)
            raise
        if self.context.invalid_answer is not None:
            raise self.context.invalid_answer
