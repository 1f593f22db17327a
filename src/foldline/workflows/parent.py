"""`Parent`: what an agent, a graph or a flow inherits from the step of another run that calls it.

A run inside another one is an ordinary call. What it says goes into the outer run's stream under its namespace; what
it keeps goes to the outer run's checkpointer, on the same thread; a question of it stops the outer run too.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.workflows.events import Emit
from foldline.workflows.log import Lineage

__all__ = ["Parent", "within"]


@dataclass(slots=True)
class Parent:
    """What a run inherits from the step of another run that called it."""

    namespace: tuple[str, ...]
    """The step's own."""
    key: str
    """Names the step where its parts are kept: two steps, and two forks of one, have different ones."""
    wants: frozenset[str]
    emit: Emit | None
    checkpointer: BaseCheckpointSaver | None
    thread_id: str | None
    lineage: Lineage | None
    """Where the run of the step stands in its log."""
    answers: Mapping[str, Any]
    tool_call_id: str | None = None
    count: int = field(default=0)

    def next_place(self) -> tuple[tuple[str, ...], str]:
        """Name the next agent, graph or flow called here, and where it is kept; the same when the step is repeated."""
        count, self.count = self.count, self.count + 1
        if not count:
            return self.namespace, self.key
        return (*self.namespace[:-1], f"{self.namespace[-1]}#{count}"), f"{self.key}#{count}"

    def keeps(self, checkpointer: object, thread_id: object) -> bool:
        """Whether a run called here is kept as a part of this one; not one that names a thread of its own."""
        if self.checkpointer is None:
            return False
        has_own = isinstance(checkpointer, BaseCheckpointSaver) and thread_id is not None
        return not has_own or str(thread_id) == self.thread_id

    def inside(self, place: str) -> Parent:
        """Return the same for a journalled step in here: what it calls is counted apart, as it may not run again."""
        return replace(self, namespace=(*self.namespace, place), key=f"{self.key}|{place}", count=0)


within: ContextVar[Parent | None] = ContextVar("foldline_agent_within", default=None)
