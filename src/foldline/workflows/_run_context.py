"""`RunContext`: what the parts of one run share: its place inside other runs, its store, its event output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from foldline._io import IO, mutex
from foldline._run import Run
from foldline.checkpoint.base import BaseCheckpointSaver, Entry
from foldline.utils.uuid import new_id
from foldline.workflows._event_output import EventOutput
from foldline.workflows._nesting import Parent
from foldline.workflows._thread_log import Log, thread_of
from foldline.workflows._thread_state import FIRST_BRANCH, ThreadState
from foldline.workflows.durability import ENGINE_RUN
from foldline.workflows.interrupts import InterruptScope

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
        self._old_key: str | None = None
        if outer is not None:
            self.namespace, self.key, self._old_key = outer.next_place()
            wants = wants if outer.emit is None else wants | outer.wants
        self.wants = wants
        self.saver: BaseCheckpointSaver | None = None
        self.thread_id: str | None = None
        self.is_inner = False
        """Whether this run is stored as a part of the outer run."""
        self.forks: dict[str, str] = {}
        """The checkpoints at which this run and nested ones begin again, by namespace."""
        self.log: Log | None = self._find_log(checkpointer)
        self._root: str = self._find_root()
        """The first part of the keys of steps: another one in another run, the same if this run is repeated."""
        outer_stops = outer is not None and outer.can_stop
        self.can_stop: bool = self.log is not None or outer_stops
        """Whether the run may stop for an answer and continue later."""
        self.invalid_answer: Exception | None = None
        """The error of an answer that does not fit its question, raised when the other answers were used."""
        self.output = EventOutput(run.io, self.namespace, wants)
        self._adding = mutex()

    def _find_log(self, checkpointer: BaseCheckpointSaver | bool | None) -> Log | None:  # noqa: FBT001
        outer, key, lineage = self.outer, "", None
        thread_id = self.run.configurable.get("thread_id")
        if checkpointer is False:
            return None
        if outer is not None and outer.stores_run(checkpointer, thread_id):
            self.saver, self.thread_id, self.is_inner = outer.checkpointer, outer.thread_id, True
            if checkpointer is True:  # its thread outlives the step that calls it
                self.namespace = tuple(part.partition(":")[0] for part in self.namespace)
                self.key, self._old_key = "|".join(self.namespace), None
            lineage = outer.lineage
            key, self.forks = self.key, outer.forks
        elif isinstance(checkpointer, BaseCheckpointSaver):
            self.saver = checkpointer
            self.thread_id = thread_of(self.run.configurable, self.name)
            self.forks = dict(self.run.configurable.get("checkpoint_map") or {})
        if self.saver is None:
            return None
        owner = outer.owner if outer is not None and self.is_inner else None
        log = Log(self.saver, self.thread_id or "", key, lineage, owner)
        log.old_namespace = self._old_key
        return log

    def _find_root(self) -> str:
        outer_root = None if self.outer is None else self.outer.root
        return self.thread_id or outer_root or ENGINE_RUN.get() or new_id()

    def keep_old_place(self) -> None:
        """Keep the place of a thread of an earlier version: the ids of its tasks and questions are made from it."""
        if self.log is not None and self.log.namespace != self.key:
            *outer, last, number = self.namespace
            self.key, self.namespace = self.log.namespace, (*outer, f"{last}#{number}")

    def take_fork(self) -> str | None:
        """Return the checkpoint from which the caller continues this run; None for the last one."""
        if self.is_inner or self.forks:
            return self.forks.pop(self.key, None)
        checkpoint: str | None = self.run.configurable.get("checkpoint_id")
        return checkpoint

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
                lineage = thread.take_fork()
                if lineage is not None:
                    body["lineage"] = lineage
                pending_entries.append(self.log.add(body, thread.head))
                thread.advance(pending_entries[-1].entry.id, lineage)
        await self.log.flush(self.io, pending_entries[-1])
        return [pending.entry for pending in pending_entries]

    async def release(self) -> None:
        """Write the remaining records, wait for those being written, and give the thread back."""
        if self.log is None:
            return
        try:
            await self.log.release(self.io)
        finally:
            if not self.is_inner:
                await self.log.owner.release(self.io)

    async def check_owner(self) -> None:
        """Raise `ThreadConflictError` if the run has lost its thread: another one may have the next effect."""
        if self.log is not None:
            await self.log.owner.check(self.io)

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
            lineage=None if self.log is None else self.thread,
            answers=self.answers,
            tool_call_id=tool_call_id,
            owner=None if self.log is None else self.log.owner,
            can_stop=self.can_stop,
            root=self._root,
            parents=self.parents,
            forks=self.forks,
        )

    @property
    def answers(self) -> Mapping[str, Any]:
        """The answers to the questions of the current step; a nested run that is not stored has the outer run's."""
        if self.log is None and self.outer is not None:
            return self.outer.answers
        return self.thread.answers

    @property
    def parents(self) -> dict[str, str]:
        """The last checkpoints of this run and the outer ones, by namespace."""
        outer = {} if self.outer is None or not self.is_inner else self.outer.parents
        base = self.thread.base
        return dict(outer) if base is None or self.log is None else {**outer, self.key: base}

    def interrupt_scope(self, place: str) -> InterruptScope:
        """Return the scope of `interrupt()` calls in a step."""
        # The same question on another branch is another question; an effect is another one also on the branch that an
        # answer to an earlier checkpoint has begun.
        question = f"{self.thread_id}/{place}{_suffix(self.thread.base_branch)}"
        key = f"{self._root}/{place}{_suffix(self.thread.branch)}"
        return InterruptScope(question, self.answers, self.can_stop, key=key)


def _suffix(branch: str) -> str:
    return "" if branch == FIRST_BRANCH else f"@{branch}"
