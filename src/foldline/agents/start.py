"""How a run of an agent begins: what its thread holds already, and what the caller gives now."""

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
from foldline.workflows.interrupts import Command
from foldline.workflows.journal import chain_of
from foldline.workflows.log import Log
from foldline.workflows.thread_start import ThreadStart

__all__ = ["AgentStart", "load_thread"]

Values = dict[str, Any]
GONE_ON = "not run: the conversation went on without it"


class AgentStart(ThreadStart[AgentContext]):
    """The beginning of a run of an agent."""

    async def load(self, at: str | None, value: object) -> bool:
        """Read the thread; return whether None goes on from an earlier record, as a fork."""
        context = self.context
        assert context.log is not None
        context.thread = await load_thread(context.setup, context.log, context.io, at)
        return at is not None and at != context.log.last

    async def begin(self, kind: str) -> None:
        """Write down that somebody goes on."""
        await self._begin(Record(kind, step=self.context.thread.step))

    async def _begin(self, *records: Record) -> None:
        await self.context.keep(*records)
        for record in records:
            self.context.thread.take(record, self.context.setup.schema)

    async def take_input(self, value: object) -> None:
        """Begin a round: calls that have no result get one that says so."""
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

    async def take_change(self, command: Command[Any]) -> None:
        """Change the state; where nothing is under way, the change is an input."""
        if self.context.thread.is_unfinished:
            await self._begin(self._change(command))
        else:
            await self.take_input(dict(_update_of(command)))

    async def take_answers(self, answers: dict[str, Any], command: Command[Any] | None) -> None:
        """Write down the answers, after the change of the state that came with them."""
        changes = [] if command is None else [self._change(command)]
        step = self.context.thread.step
        await self._begin(*changes, Record("resume", step=step, answers=answers))

    def _change(self, command: Command[Any]) -> Record:
        thread, schema = self.context.thread, self.context.setup.schema
        update = schema.prepared(_update_of(command), "the Command")
        return Record("update", step=thread.step, values=update)


def _update_of(command: Command[Any]) -> Mapping[str, Any]:
    if command.goto:
        raise UsageError(
            f"Command(goto={command.goto!r}) was given to an agent, whose steps follow from its messages: give "
            "update= and resume= alone"
        )
    return dict(command.update or {})


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


def _as_values(value: object) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str | list | tuple | BaseMessage):
        return {"messages": value}
    if isinstance(value, PromptValue):
        return {"messages": value.to_messages()}
    raise UsageError(
        f'an agent takes {{"messages": [...]}}, not {type(value).__name__}: {value!r:.100}'
    )
