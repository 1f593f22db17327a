"""`RunLoop`: one run of an agent or a graph: step after step, each kept before the next, until the end or a question.

`events()` gives what happens as it happens; where nobody listens it says nothing, and only `result()` counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from foldline.workflows.events import FlowEvent
from foldline.workflows.interrupts import FlowInterrupt, Interrupt
from foldline.workflows.nesting import Parent
from foldline.workflows.run_context import RunContext

__all__ = ["RunLoop"]

ContextT = TypeVar("ContextT", bound=RunContext[Any])


class RunLoop(ABC, Generic[ContextT]):
    """One run: its events, and the state it came to."""

    def __init__(self, context: ContextT) -> None:
        self.context = context

    # -- what agents and graphs do each in their way

    @abstractmethod
    async def open(self, value: object) -> None:
        """Read the thread and take what the caller gives."""

    @abstractmethod
    def goes_on(self) -> bool:
        """Whether another step comes."""

    @abstractmethod
    def step_events(self) -> AsyncGenerator[FlowEvent, None]:
        """Take one step and keep it; give what happens. Raises FlowInterrupt where it stops for a person."""

    @abstractmethod
    async def keep_questions(self, interrupts: list[Interrupt]) -> None:
        """Write down that the run stopped for these questions."""

    @abstractmethod
    def result(self) -> Any:  # noqa: ANN401  the state in the form of its schema
        """Return the state as callers see it, and the questions that are open."""

    def partial_result(self) -> object:
        """Return what a run that was left had come to."""
        return self.result()

    def fail(self, error: BaseException) -> None:
        """Say that the run ends by an error."""

    def end(self) -> None:
        """Say that the run is over, at its end or at a question."""

    # -- the same for both

    @property
    def outer(self) -> Parent | None:
        """The step of another run that called this one."""
        return self.context.outer

    @property
    def namespace(self) -> tuple[str, ...]:
        """Where this run is inside the outer ones."""
        return self.context.namespace

    @property
    def is_inner(self) -> bool:
        """Whether this run is kept as a part of the outer one."""
        return self.context.is_inner

    @property
    def interrupts(self) -> list[Interrupt]:
        """The questions that are open."""
        interrupts: list[Interrupt] = self.context.thread.interrupts
        return interrupts

    async def events(self, value: object) -> AsyncGenerator[FlowEvent, None]:
        """Run; give what happens."""
        output = self.context.output
        try:
            await self.open(value)
            for event in output.take_waiting():
                yield event
            async with aclosing(self._steps()) as events:
                async for event in events:
                    yield event
        except BaseException as error:
            self.fail(error)
            if isinstance(error, Exception):
                for event in output.take_waiting():
                    yield event
            raise
        finally:
            await self.context.release()
        self.end()
        for event in output.take_waiting():
            yield event

    async def _steps(self) -> AsyncGenerator[FlowEvent, None]:
        thread = self.context.thread
        try:
            while self.goes_on() and not thread.interrupts:
                async with aclosing(self.step_events()) as events:
                    async for event in events:
                        yield event
                for event in self.context.output.take_waiting():
                    yield event
        except FlowInterrupt as stop:
            thread.interrupts = stop.interrupts
            await self.keep_questions(stop.interrupts)
