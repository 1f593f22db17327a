"""`RunContext`: one run of an agent or a graph: where it is inside others, where it is kept, and who listens."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from foldline._io import IO, mutex
from foldline._run import Run
from foldline.checkpoint.base import BaseCheckpointSaver, Entry
from foldline.workflows.event_output import EventOutput
from foldline.workflows.interrupts import Asking
from foldline.workflows.log import Lineage, Log, thread_of
from foldline.workflows.nesting import Parent
from foldline.workflows.thread_state import ThreadState

__all__ = ["RunContext"]

ThreadT = TypeVar("ThreadT", bound=ThreadState)


class RunContext(Generic[ThreadT]):
    """What the parts of one run share."""

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
        """Find where the run is; nothing is read yet.

        A checkpointer that is True keeps the threads of a run inside another one, whatever calls it; False keeps none.
        """
        self.run = run
        self.io: IO = run.io
        self.name = name
        self.thread = thread
        self.outer = outer
        self.namespace: tuple[str, ...] = ()
        self.key = ""
        """Names this run where it is kept, inside others."""
        if outer is not None:
            self.namespace, self.key = outer.next_place()
            wants = wants if outer.emit is None else wants | outer.wants
        self.wants = wants
        self.saver: BaseCheckpointSaver | None = None
        self.thread_id: str | None = None
        self.is_inner = False
        """Whether this run is kept as a part of the outer one."""
        self.log: Log | None = None
        self._find_log(checkpointer)
        self.output = EventOutput(run.io, self.namespace, wants)
        self._adding = mutex()

    def _find_log(self, checkpointer: BaseCheckpointSaver | bool | None) -> None:  # noqa: FBT001
        outer, key, lineage = self.outer, "", None
        thread_id = self.run.configurable.get("thread_id")
        if checkpointer is False:
            return
        if outer is not None and outer.keeps(checkpointer, thread_id):
            self.saver, self.thread_id, self.is_inner = outer.checkpointer, outer.thread_id, True
            if checkpointer is True:  # its threads outlive the step that calls it
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

    # -- keeping

    async def append(self, *bodies: dict[str, Any]) -> list[Entry]:
        """Write records, all or none, and wait until they are safe; returns nothing where nothing is kept.

        Several tasks of a step come here at once: each record follows the one before it.
        """
        if self.log is None:
            return []
        thread, added = self.thread, []
        with self._adding:
            for body in bodies:
                added.append(self.log.add(body, thread.head))
                thread.head = added[-1].entry.id
                thread.chain.add(thread.head)
        await self.log.flush(self.io, added[-1])
        return [pending.entry for pending in added]

    async def release(self) -> None:
        """Write what was held back, and wait for what is under way."""
        if self.log is not None:
            await self.log.release(self.io)

    # -- where the code of a step is

    def within(
        self,
        label: str,
        place: str,
        *,
        wants: frozenset[str] | None = None,
        tool_call_id: str | None = None,
    ) -> Parent:
        """Return what agents, graphs, flows and steps called by a step inherit."""
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

    def asking(self, place: str) -> Asking:
        """Return where `interrupt()` in a step asks."""
        return Asking(f"{self.thread_id}/{place}", self.thread.answers, self.saver is not None)
