"""How a run begins: what its thread holds already, and what the caller gives now.

An input begins a new round; None carries on where the thread stands (after a crash); `Command(resume=…)` answers what
it stopped for. Whoever begins writes that down first, so that of two processes only one carries on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foldline._io import IO
from foldline.agents.checkpoint.records import Record, Thread
from foldline.agents.context import AgentContext
from foldline.agents.setup import END, Setup
from foldline.agents.tool_calls import closed, error_message, unanswered
from foldline.exceptions import SchemaError, UsageError
from foldline.messages import BaseMessage
from foldline.prompt_values import PromptValue
from foldline.workflows.interrupts import Command, answers_for
from foldline.workflows.journal import chain_of
from foldline.workflows.log import Log

__all__ = ["ThreadStart", "load_thread"]

Json = Any
Values = dict[str, Any]
GONE_ON = "not run: the conversation went on without it"


class ThreadStart:
    """The beginning of a run."""

    def __init__(self, context: AgentContext) -> None:
        self.context = context

    async def open(self, value: Json) -> None:
        """Read the thread and take what the caller gives."""
        context = self.context
        at = last = None
        if context.log is not None:
            at = None if context.is_inner else context.run.configurable.get("checkpoint_id")
            context.thread = await load_thread(context.setup, context.log, context.io, at)
            last = context.log.last
            context.log.set_durability(context.run.kwargs.get("durability"))
        if context.is_inner and context.thread.head is not None:
            await self._carry_on_inside()
        elif isinstance(value, Command):
            await self._take_command(value)
        elif value is None:
            await self._carry_on(is_fork=at is not None and at != last)
        else:
            await self._take_input(value)

    async def _begin(self, record: Record) -> None:
        thread = self.context.thread
        if record.kind != "input":
            record.step = thread.step
        await self.context.keep(record)
        thread.take(record, self.context.setup.schema)

    async def _take_input(self, value: Json) -> None:
        context, thread, schema = self.context, self.context.thread, self.context.setup.schema
        given = schema.given(_as_values(value))
        told = closed(given.get("messages", ()), GONE_ON)
        answered = {getattr(one, "tool_call_id", None) for one in told}
        left = [
            error_message(call, GONE_ON)
            for call in unanswered(context.transcript().get("messages", ()))
            if call.get("id") not in answered
        ]
        done = [one for update in thread.finished.values() for one in update["messages"]]
        whole = [*done, *left, *told]
        if len(whole) != len(given.get("messages", ())):
            given["messages"] = schema.prepared({"messages": whole}, "the input")["messages"]
        thread.values.pop("structured_response", None)
        if context.log is None:
            thread.values = schema.update(thread.values, given)
            thread.next = context.setup.entry
        else:
            await self._begin(
                Record("input", step=thread.step, next=context.setup.entry, values=given)
            )
        if not thread.values.get("messages"):
            raise UsageError('an agent needs at least one message: invoke({"messages": [...]})')

    async def _carry_on(self, *, is_fork: bool) -> None:
        thread = self.context.thread
        if thread.next is None:
            raise UsageError(
                f"{self.context.setup.name} was invoked with None, which carries on with an unfinished thread, "
                "and there is none"
            )
        if (
            is_fork
        ):  # what the thread did after this point belongs to another branch, and is done anew
            await self._begin(Record("fork"))
        elif not thread.interrupts:
            await self._begin(Record("claim"))

    async def _take_command(self, command: Command[Any]) -> None:
        questions = self.context.thread.interrupts or self.context.thread.asked
        if command.resume is None and not questions:
            await self._take_input(dict(command.update or {}))
            return
        if not questions:
            raise UsageError("there is nothing to resume: this thread did not stop for an answer")
        await self._begin(Record("resume", answers=answers_for(command.resume, questions)))

    async def _carry_on_inside(self) -> None:
        """A tool that was interrupted runs again and calls its agent again: it goes on where it was."""
        assert self.context.outer is not None
        known, thread = self.context.outer.answers, self.context.thread
        answers = {one.id: known[one.id] for one in thread.interrupts if one.id in known}
        if answers:
            await self._begin(Record("resume", answers=answers))
        elif not thread.interrupts and thread.next is not None:
            await self._begin(Record("claim"))


async def load_thread(setup: Setup, log: Log, io: IO, at: str | None = None) -> Thread:
    """Read where a thread stands, or stood."""
    thread = Thread()
    for entry in chain_of(await log.read(io), at):
        thread.take(setup.codec.record(entry), setup.schema)
    if thread.next == END:
        thread.next = None
    if thread.next is not None and thread.next not in setup.nodes:
        raise SchemaError(
            f"thread {log.thread_id!r} stands before the step {thread.next!r}, which this agent does not have: "
            "use an agent with the same middleware"
        )
    return thread


def _as_values(value: Json) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str | list | tuple | BaseMessage):
        return {"messages": value}
    if isinstance(value, PromptValue):
        return {"messages": value.to_messages()}
    raise UsageError(
        f'an agent takes {{"messages": [...]}}, not {type(value).__name__}: {value!r:.100}'
    )
