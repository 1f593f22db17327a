"""`AgentContext`: what the parts of one run of an agent share."""

from __future__ import annotations

from typing import Any

from foldline._run import Run
from foldline.agents.checkpoint.records import Record, Thread
from foldline.agents.limits import Bounds
from foldline.agents.runtime import Runtime
from foldline.agents.setup import Setup
from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.workflows.event_output import EventOutput
from foldline.workflows.interrupts import Asking
from foldline.workflows.log import Lineage, Log, thread_of
from foldline.workflows.nesting import Within

__all__ = ["AgentContext"]

Values = dict[str, Any]


class AgentContext:
    """One run: the agent and its caller, the thread and where it is kept, and who listens."""

    def __init__(
        self, setup: Setup, run: Run, *, wants: frozenset[str], outer: Within | None
    ) -> None:
        self.setup = setup
        self.run = run
        self.io = run.io
        self.outer = outer
        self.namespace: tuple[str, ...] = ()
        self.key = ""
        """Names this run where it is kept, inside others."""
        if outer is not None:
            self.namespace, self.key = outer.next_place()
            wants = wants if outer.emit is None else wants | outer.wants
        self.wants = wants
        self.output = EventOutput(run.io, self.namespace, wants)
        self.is_observed = bool(wants) or run.manager is not None
        """Whether anybody hears of a step before it is kept."""
        self.bounds = Bounds(setup.name, setup.limits, run)
        self.thread = Thread()
        self.saver: BaseCheckpointSaver | None = setup.checkpointer
        self.thread_id: str | None = None
        self.is_inner = outer is not None and outer.checkpointer is not None
        """Whether this is a sub-agent that is kept as a part of the outer run."""
        self.log: Log | None = None
        self._open_log()
        self.runtime: Runtime[Any] = Runtime(
            context=run.kwargs.get("context"),
            store=setup.store,
            stream_writer=self.output.write,
            config=run.given,
            thread_id=self.thread_id,
            namespace=self.namespace,
        )

    def _open_log(self) -> None:
        """Find where the thread is kept; nothing is read yet."""
        if self.outer is not None and self.is_inner:
            # A sub-agent is part of the outer run: it is kept where that is kept.
            self.saver, self.thread_id = self.outer.checkpointer, self.outer.thread_id
        elif self.saver is not None:
            self.thread_id = thread_of(self.run.configurable, self.setup.name)
        if self.saver is None:
            return
        lineage = self.outer.lineage if self.outer is not None and self.is_inner else None
        key = self.key if self.is_inner else ""
        self.log = Log(self.saver, self.thread_id or "", key, lineage)

    async def keep(self, record: Record) -> None:
        """Write a record and wait until it is safe; somebody else's progress on this thread is an error."""
        if self.log is None:
            return
        pending = self.log.add(self.setup.codec.body(record), self.thread.head)
        await self.log.flush(self.io, pending)
        record.id, record.parent = pending.entry.id, pending.entry.parent
        self.thread.come_to(record)

    def transcript(self) -> Values:
        """Return the state with the results of the step under way."""
        values = self.thread.values
        done = [one for update in self.thread.finished.values() for one in update["messages"]]
        return {**values, "messages": [*values.get("messages", ()), *done]} if done else values

    # -- where a step's code is

    def within(self, node: str, call_id: str | None = None) -> Within:
        """Return what agents, flows and steps called by a step inherit."""
        label = f"{node}:{call_id}" if call_id else node
        thread = self.thread
        place = f"{label}@{thread.base or ''}.{thread.step}"
        return Within(
            namespace=(*self.namespace, label),
            key=f"{self.key}|{place}" if self.key else place,
            wants=self.wants,
            emit=self.output.say if self.wants else None,
            checkpointer=self.saver,
            thread_id=self.thread_id,
            lineage=None if self.log is None else Lineage(self.log, thread.chain),
            answers=thread.answers,
            tool_call_id=call_id,
        )

    def asking(self, place: Within) -> Asking:
        """Return where `interrupt()` in a step asks."""
        return Asking(f"{self.thread_id}/{place.key}", self.thread.answers, self.saver is not None)
