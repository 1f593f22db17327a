"""`Parent`: what an agent, a graph or a flow inherits from the step of another run that calls it.

A nested run is an ordinary call. Its events go into the outer run's stream under its namespace; its records go to the
outer run's checkpointer, on the same thread; an interrupt in it stops the outer run too.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from foldline._io import IO
from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.workflows._run_events import Emit
from foldline.workflows._started_tasks import StartedTasks
from foldline.workflows._thread_log import Lineage
from foldline.workflows._thread_owner import ThreadOwner

__all__ = ["Parent", "current_parent"]


class Place(NamedTuple):
    """The place of a nested run."""

    namespace: tuple[str, ...]
    key: str
    """Its store key."""
    old_key: str | None = None
    """The store key that earlier versions gave it."""


@dataclass(slots=True)
class Parent:
    """What a run inherits from the step of another run that called it."""

    namespace: tuple[str, ...]
    """The namespace of the step."""
    key: str
    """The store key of the step: two steps, and two forks of one, have different keys."""
    wants: frozenset[str]
    emit: Emit | None
    checkpointer: BaseCheckpointSaver | None
    thread_id: str | None
    lineage: Lineage | None
    """The position of the step's run in its log."""
    answers: Mapping[str, Any]
    tool_call_id: str | None = None
    owner: ThreadOwner | None = None
    """The run that owns the thread; nested runs write under its claim."""
    can_stop: bool = True
    """Whether a question of a nested run stops the outer one."""
    root: str | None = None
    """The first part of the keys of steps of a nested run that is not stored: it is repeated with the step."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """The last checkpoints of the outer runs, by namespace."""
    forks: dict[str, str] = field(default_factory=dict)
    """The checkpoints at which nested runs begin again, by namespace; each is used once."""
    count: int = field(default=0)
    io: IO | None = None
    """How the step waits."""
    tasks: StartedTasks | None = None
    """The tasks that the step has started; None if none."""
    scope: Any = None
    """The scope of the step's tasks without a checkpointer; made for the first of them."""

    def next_place(self) -> Place:
        """Return the place of the next nested run; the same when the step is repeated."""
        count, self.count = self.count, self.count + 1
        if not count:
            return Place(self.namespace, self.key)
        return Place((*self.namespace, str(count)), f"{self.key}|{count}", f"{self.key}#{count}")

    def stores_run(self, checkpointer: object, thread_id: object) -> bool:
        """Whether a nested run is stored as a part of this run; not if it has its own checkpointer and thread."""
        if self.checkpointer is None:
            return False
        has_own_thread = isinstance(checkpointer, BaseCheckpointSaver) and thread_id is not None
        return not has_own_thread or str(thread_id) == self.thread_id

    def nested(self, place: str) -> Parent:
        """Return the parent for a journalled step: its calls are counted separately, as it may not run again."""
        return replace(
            self, namespace=(*self.namespace, place), key=f"{self.key}|{place}", count=0, scope=None
        )


current_parent: ContextVar[Parent | None] = ContextVar("foldline_current_parent", default=None)
