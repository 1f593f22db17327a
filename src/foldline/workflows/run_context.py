"""`RunContext`: what the parts of one run share: its place inside other runs, its store, its event output."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from foldline._io import IO, mutex
from foldline._run import Run
from foldline.checkpoint.base import BaseCheckpointSaver, Entry
from foldline.workflows.event_output import EventOutput
from foldline.workflows.interrupts import InterruptScope
from foldline.workflows.log import Lineage, Log, thread_of
from foldline.workflows.nesting import Parent
from foldline.workflows.thread_state import ThreadState

__all__ = ["RunContext"]

ThreadT = TypeVar("ThreadT", bound=ThreadState)


class RunContext(Generic[ThreadT]):
    """The context of one run of an agent or a graph."""

    def __init__(
        self,
        run: Run,
        thread: ThreadT,
        *,
        name: str,
        checkpointer: BaseCheckpointSaver | bool | None,
        wants: frozenset[str],
        outer: Parent | None,
    ) -> None:
        """Determine the place of the run; nothing is read yet.

        `checkpointer=True` stores a nested run's thread independently of the step that calls it; False stores nothing.
        """
        self.run = run
        self.io: IO = run.io
        self.name = name
        self.thread = thread
        self.outer = outer
        self.namespace: tuple[str, ...] = ()
        self.key = ""
        """The store key of this run inside other runs."""
        if outer is not None:
            self.namespace, self.key = outer.next_place()
            wants = wants if outer.emit is None else wants | outer.wants
        self.wants = wants
        self.saver: BaseCheckpointSaver | None = None
        self.thread_id: str | None = None
        self.is_inner = False
        """Whether this run is stored as a part of the outer run."""
        self.log: Log | None = None
        self._find_log(checkpointer)
        self.output = EventOutput(run.io, self.namespace, wants)
        self._adding = mutex()

    def _find_log(self, checkpointer: BaseCheckpointSaver | bool | None) -> None:  # noqa: FBT001
        outer, key, lineage = self.outer, "", None
        thread_id = self.run.configurable.get("thread_id")
        if checkpointer is False:
            return
        if outer is not None and outer.stores_run(checkpointer, thread_id):
            self.saver, self.thread_id, self.is_inner = outer.checkpointer, outer.thread_id, True
            if checkpointer is True:  # its thread outlives the step that calls it
                self.namespace = tuple(part.partition(":")[0] for part in self.namespace)
                self.key = "|".join(self.namespace)
            else:
                lineage = outer.lineage
            key = self.key
        elif isinstance(checkpointer, BaseCheckpointSaver):
            self.saver = checkpointer
            self.thread_id = thread_of(self.run.configurable, self.name)
        if self.saver is not None:
            self.log = Log(self.saver, self.thread_id or "", key, lineage)

    # -- storing

    async def append(self, *bodies: dict[str, Any]) -> list[Entry]:
        """Write records, all or none, and wait until they are stored; return [] without a checkpointer.

        Several tasks of a step may call this concurrently: each record follows the previous one.
        """
        if self.log is None:
            return []
        thread, pending_entries = self.thread, []
        with self._adding:
            for body in bodies:
                pending_entries.append(self.log.add(body, thread.head))
                thread.head = pending_entries[-1].entry.id
                thread.chain.add(thread.head)
        await self.log.flush(self.io, pending_entries[-1])
        return [pending.entry for pending in pending_entries]

    async def release(self) -> None:
        """Write the remaining records, and wait for those being written."""
        if self.log is not None:
            await self.log.release(self.io)

    # -- the place of a step

    def make_parent(
        self,
        label: str,
        place: str,
        *,
        wants: frozenset[str] | None = None,
        tool_call_id: str | None = None,
    ) -> Parent:
        """Return the parent of the agents, graphs, flows and steps that a step calls."""
        wants = self.wants if wants is None else wants
        return Parent(
            namespace=(*self.namespace, label),
            key=f"{self.key}|{place}" if self.key else place,
            wants=wants,
            emit=self.output.send if self.wants else None,
            checkpointer=self.saver,
            thread_id=self.thread_id,
            lineage=None if self.log is None else Lineage(self.log, self.thread.chain),
            answers=self.thread.answers,
            tool_call_id=tool_call_id,
        )

    def interrupt_scope(self, place: str) -> InterruptScope:
        """Return the scope of `interrupt()` calls in a step."""
        return InterruptScope(
            f"{self.thread_id}/{place}", self.thread.answers, self.saver is not None
        )
