"""`RunLoop`: one run of an agent or a graph: steps, each stored before the next, until the end or a question.

`events()` yields the events of the run; without a streaming caller it yields none, and only `result()` is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from foldline.exceptions import FoldlineError, RunCancelledError, StoreError, ThreadBusyError
from foldline.workflows._inbox import Inbox, Message
from foldline.workflows._nesting import Parent
from foldline.workflows._run_context import RunContext
from foldline.workflows._run_events import FlowEvent
from foldline.workflows.durability import ENGINE_RUN
from foldline.workflows.interrupts import (
    FlowInterrupt,
    Interrupt,
    is_invalid_resume,
    reopened_questions,
)

__all__ = ["RunLoop"]

ContextT = TypeVar("ContextT", bound=RunContext[Any])


class RunLoop(ABC, Generic[ContextT]):
    """One run: its events, and its final state."""

    def __init__(self, context: ContextT) -> None:
        self.context = context
        self._inbox: Inbox | None = None
        if context.log is not None and not context.is_inner and ENGINE_RUN.get() is None:
            self._inbox = Inbox(context.log.saver, context.log.thread_id, context.io)

    # -- what agents and graphs implement

    @abstractmethod
    async def open(self, value: object) -> None:
        """Load the thread and apply the caller's input."""

    @abstractmethod
    async def reload(self) -> None:
        """Load the thread again, which another run may have continued."""

    @abstractmethod
    def can_take_messages(self) -> bool:
        """Whether a message may become a part of the state now: between steps, and not while a question is open."""

    @abstractmethod
    async def take_message(self, message: Message) -> None:
        """Apply a message to the state, and record that it was taken."""

    @abstractmethod
    async def skip_message(self, message: Message) -> None:
        """Record that a message was taken, and change nothing."""

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
            async with aclosing(self._rounds()) as events:
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

    async def _rounds(self) -> AsyncGenerator[FlowEvent, None]:
        """Run to the end; go on if somebody has sent a message too late for the last step, and found no idle thread."""
        is_owner = True
        while is_owner:
            async with aclosing(self._steps()) as events:
                async for event in events:
                    yield event
            is_owner = self._inbox is not None and await self._return_for_messages(self._inbox)

    async def _return_for_messages(self, inbox: Inbox) -> bool:
        """Give the thread back; own it again if there are messages for it."""
        context = self.context
        if not self.can_take_messages():
            return False  # for the run that answers the question
        await context.release()
        if context.log is None or not await inbox.has_messages(context.thread):
            return False
        try:
            await context.log.owner.claim(context.io)
        except ThreadBusyError:
            return False  # that run takes them
        await self.reload()
        inbox.look_now()
        return True

    async def _take_messages(self) -> None:
        """Take what others have sent to the thread."""
        if self._inbox is None:
            return
        messages = await self._inbox.new_messages(self.context.thread)
        for message in messages:
            if message.what == "cancel":
                by = "" if message.sender is None else f" by {message.sender}"
                raise RunCancelledError(
                    f"the run of {self.context.name} on thread {self.context.thread_id!r} was cancelled{by}: what it "
                    "did is stored, and invoke(None, config) continues it",
                    self.context.thread_id or "",
                    message.sender,
                )
        if messages and self.can_take_messages():
            for message in messages:
                await self._take_message(message)

    async def _take_message(self, message: Message) -> None:
        try:
            await self.take_message(message)
        except (FoldlineError, TypeError, ValueError) as error:
            # A message that does not fit the state must not fail every later run, too.
            if not isinstance(error, StoreError):
                await self.skip_message(message)
            raise

    async def _steps(self) -> AsyncGenerator[FlowEvent, None]:
        thread = self.context.thread
        try:
            await self._take_messages()
            while self.has_next_step() and not thread.interrupts:
                async with aclosing(self.step_events()) as events:
                    async for event in events:
                        yield event
                for event in self.context.output.take_buffered():
                    yield event
                await self._take_messages()
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
