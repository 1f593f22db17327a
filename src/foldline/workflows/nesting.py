"""Where an agent runs that is called by a tool of another agent: in a namespace of its own, on the same thread.

A sub-agent is an ordinary call inside a tool. What it says goes into the outer run's stream under its namespace; what
it keeps goes to the outer run's checkpointer; a question of it stops the outer run too.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.workflows.events import Emit
from foldline.workflows.interrupts import Asking, asking
from foldline.workflows.log import Lineage
from foldline.workflows.scope import FlowContext, Scope, current_scope

__all__ = ["Within", "inside", "within"]

Json = Any


@dataclass(slots=True)
class Within:
    """What an agent inherits from the step of another agent that called it."""

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
    answers: Mapping[str, Json]
    tool_call_id: str | None = None
    count: int = field(default=0)

    def next_place(self) -> tuple[tuple[str, ...], str]:
        """Name the next agent, graph or flow called here, and where it is kept; the same when the step is repeated."""
        count, self.count = self.count, self.count + 1
        if not count:
            return self.namespace, self.key
        return (*self.namespace[:-1], f"{self.namespace[-1]}#{count}"), f"{self.key}#{count}"


within: ContextVar[Within | None] = ContextVar("foldline_agent_within", default=None)


@contextmanager
def inside(place: Within, questions: Asking) -> Generator[None, None, None]:
    """Let agents, steps and interrupts in the block know where they are. Never held across a `yield` to a caller."""
    token, asked = within.set(place), asking.set(questions)
    scope = current_scope.set(_steps_of(place, questions))
    try:
        yield
    finally:
        current_scope.reset(scope)
        asking.reset(asked)
        within.reset(token)


def _steps_of(place: Within, questions: Asking) -> Scope | None:
    """Return where steps of a tool, a hook or a node are kept: beside the thread, read when a step is called."""
    if place.checkpointer is None:
        return None
    flow = FlowContext(questions.place, place.thread_id, place.emit, place.wants)
    flow.questions = questions
    source = (place.checkpointer, place.thread_id or "", f"steps|{place.key}", place.lineage)
    return Scope(flow, None, source=source)
