"""How a run begins: what its thread holds already, and what the caller gives now.

An input begins a new round; None carries on where the thread stands (after a crash); `Command(resume=…)` answers what
it stopped for. Whoever begins writes that down first, so that of two processes only one carries on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foldline._io import IO
from foldline._run import Run
from foldline.agents.checkpoint.records import Record, Thread, chain_of
from foldline.agents.setup import END, Setup
from foldline.agents.tool_calls import closed, error_message, unanswered
from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.exceptions import SchemaError, UsageError
from foldline.messages import BaseMessage
from foldline.prompt_values import PromptValue
from foldline.workflows.interrupts import Command
from foldline.workflows.nesting import Within

__all__ = ["Opened", "load_thread", "thread_of"]

Json = Any
Values = dict[str, Any]
GONE_ON = "not run: the conversation went on without it"


class Opened:
    """The beginning of a run; a part of `Loop`."""

    setup: Setup
    run: Run
    io: IO
    outer: Within | None
    namespace: tuple[str, ...]
    thread: Thread
    saver: BaseCheckpointSaver | None
    thread_id: str | None
    is_inner: bool
    """Whether this is a sub-agent that is kept as a part of the outer run."""

    def prepare(self) -> None:
        """Find the thread's place; nothing is read yet."""
        self.thread = Thread()
        self.saver, self.thread_id = self.setup.checkpointer, None
        self.is_inner = self.outer is not None and self.outer.checkpointer is not None
        if self.outer is not None and self.outer.checkpointer is not None:
            # A sub-agent is part of the outer run: it is kept where that is kept.
            self.saver, self.thread_id = self.outer.checkpointer, self.outer.thread_id
        elif self.saver is not None:
            self.thread_id = thread_of(self.run.configurable, self.setup.name)

    async def open(self, value: Json) -> None:
        """Read the thread and take what the caller gives."""
        if self.saver is not None:
            at = None if self.is_inner else self.run.configurable.get("checkpoint_id")
            self.thread = await load_thread(
                self.setup, self.saver, self.io, self.thread_id or "", self._key, at
            )
        if self.is_inner and self.thread.head is not None:
            await self._carry_on_inside()
        elif isinstance(value, Command):
            await self._take_command(value)
        elif value is None:
            await self._carry_on()
        else:
            await self._take_input(value)

    @property
    def _key(self) -> str:
        return "|".join(self.namespace) if self.is_inner else ""

    async def append(self, record: Record) -> None:
        """Keep a record; somebody else's progress on this thread is an error."""
        if self.saver is None:
            return
        entry = self.setup.codec.entry(record)
        arguments = (self.thread_id or "", self._key, [entry])
        if self.saver.is_instant:
            self.saver.append(*arguments, after=self.thread.last)
        else:
            await self.io.call(self.saver.append, *arguments, after=self.thread.last)
        self.thread.last = record.id

    async def _begin(self, record: Record) -> None:
        await self.append(record)
        self.thread.take(record, self.setup.schema)

    async def _take_input(self, value: Json) -> None:
        given = self.setup.schema.given(_as_values(value))
        told = closed(given.get("messages", ()), GONE_ON)
        answered = {getattr(one, "tool_call_id", None) for one in told}
        left = [
            error_message(call, GONE_ON)
            for call in unanswered(self.transcript().get("messages", ()))
            if call.get("id") not in answered
        ]
        done = [one for update in self.thread.finished.values() for one in update["messages"]]
        whole = [*done, *left, *told]
        if len(whole) != len(given.get("messages", ())):
            given["messages"] = self.setup.schema.prepared({"messages": whole}, "the input")[
                "messages"
            ]
        self.thread.values.pop("structured_response", None)
        if self.saver is None:
            self.thread.values = self.setup.schema.update(self.thread.values, given)
            self.thread.next = self.setup.entry
        else:
            await self._begin(
                Record(
                    "input",
                    parent=self.thread.head,
                    step=self.thread.step,
                    next=self.setup.entry,
                    values=given,
                )
            )
        if not self.thread.values.get("messages"):
            raise UsageError('an agent needs at least one message: invoke({"messages": [...]})')

    async def _carry_on(self) -> None:
        if self.thread.next is None:
            raise UsageError(
                f"{self.setup.name} was invoked with None, which carries on with an unfinished thread, "
                "and there is none"
            )
        if not self.thread.interrupts:
            await self._begin(Record("claim", parent=self.thread.head, step=self.thread.step))

    async def _take_command(self, command: Command[Any]) -> None:
        open_questions = self.thread.interrupts or self.thread.asked
        if command.resume is None and not open_questions:
            await self._take_input(dict(command.update or {}))
            return
        if not open_questions:
            raise UsageError("there is nothing to resume: this thread did not stop for an answer")
        answers = self._answers(command.resume)
        await self._begin(
            Record("resume", parent=self.thread.head, step=self.thread.step, answers=answers)
        )

    def _answers(self, resume: Json) -> dict[str, Json]:
        ids = [one.id for one in self.thread.interrupts or self.thread.asked]
        if isinstance(resume, Mapping) and resume and set(resume) <= set(ids):
            return dict(resume)
        if len(ids) == 1:
            return {ids[0]: resume}
        raise UsageError(
            f"{len(ids)} answers are needed: Command(resume={{id: answer, …}}) for the ids {', '.join(ids)}"
        )

    async def _carry_on_inside(self) -> None:
        """A tool that was interrupted runs again and calls its agent again: it goes on where it was."""
        assert self.outer is not None
        known = {
            one.id: self.outer.answers[one.id]
            for one in self.thread.interrupts
            if one.id in self.outer.answers
        }
        if known:
            await self._begin(
                Record("resume", parent=self.thread.head, step=self.thread.step, answers=known)
            )
        elif not self.thread.interrupts and self.thread.next is not None:
            await self._begin(Record("claim", parent=self.thread.head, step=self.thread.step))

    def transcript(self) -> Values:
        """Give the state with the results of the step under way."""
        values = self.thread.values
        done = [one for update in self.thread.finished.values() for one in update["messages"]]
        return {**values, "messages": [*values.get("messages", ()), *done]} if done else values


async def load_thread(
    setup: Setup,
    saver: BaseCheckpointSaver,
    io: IO,
    thread_id: str,
    key: str,
    at: str | None = None,
) -> Thread:
    """Read where a thread stands, or stood."""
    if saver.is_instant:
        entries = saver.read(thread_id, key)
    else:
        entries = await io.call(saver.read, thread_id, key)
    thread = Thread(last=entries[-1].id if entries else None)
    for entry in chain_of(entries, at):
        thread.take(setup.codec.record(entry), setup.schema)
    if thread.next == END:
        thread.next = None
    if thread.next is not None and thread.next not in setup.nodes:
        raise SchemaError(
            f"thread {thread_id!r} stands before the step {thread.next!r}, which this agent does not have: "
            "use an agent with the same middleware"
        )
    return thread


def thread_of(configurable: Mapping[str, Any], name: str) -> str:
    """Give the thread that a config names."""
    thread_id = configurable.get("thread_id")
    if thread_id is None:
        raise UsageError(
            f'{name} has a checkpointer and needs a thread: config={{"configurable": {{"thread_id": "…"}}}}'
        )
    return str(thread_id)


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
