"""Let the code of a step know where it is: agents, graphs and flows that it calls, its steps, its questions."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from foldline.workflows.interrupts import Asking, asking
from foldline.workflows.parent import Parent, within
from foldline.workflows.scope import FlowContext, Scope, current_scope

__all__ = ["Parent", "inside", "within"]


@contextmanager
def inside(place: Parent, questions: Asking) -> Generator[None, None, None]:
    """Let agents, steps and interrupts in the block know where they are. Never held across a `yield` to a caller."""
    token, asked = within.set(place), asking.set(questions)
    scope = current_scope.set(_steps_of(place, questions))
    try:
        yield
    finally:
        current_scope.reset(scope)
        asking.reset(asked)
        within.reset(token)


def _steps_of(place: Parent, questions: Asking) -> Scope | None:
    """Return where steps of a tool, a hook or a node are kept: beside the thread, read when a step is called."""
    if place.checkpointer is None:
        return None
    flow = FlowContext(questions.place, place.thread_id, place.emit, place.wants)
    flow.questions = questions
    source = (place.checkpointer, place.thread_id or "", f"steps|{place.key}", place.lineage)
    return Scope(flow, None, source=source)
