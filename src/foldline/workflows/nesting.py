"""Sets the context variables for the code of a step: its parent for nested runs, its interrupts, its journal scope."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from foldline._io import IO
from foldline.workflows.durability import ENGINE
from foldline.workflows.interrupts import InterruptScope, current_interrupt_scope
from foldline.workflows.journal import Journal
from foldline.workflows.parent import Parent, current_parent
from foldline.workflows.scope import FlowContext, Scope, current_scope

__all__ = ["Parent", "current_parent", "enter_step"]


@contextmanager
def enter_step(
    parent: Parent, interrupts: InterruptScope, io: IO | None = None
) -> Generator[FlowContext | None, None, None]:
    """Set the context for nested runs, steps and interrupts; it must not be held across a `yield` to a caller.

    It is the context of the tasks that the code starts; `finish_tasks` waits for them.
    """
    scope = _step_scope(parent, interrupts, io)
    parent_token = current_parent.set(parent)
    interrupt_token = current_interrupt_scope.set(interrupts)
    scope_token = current_scope.set(scope)
    try:
        yield None if scope is None else scope.flow
    finally:
        current_scope.reset(scope_token)
        current_interrupt_scope.reset(interrupt_token)
        current_parent.reset(parent_token)


def _step_scope(parent: Parent, interrupts: InterruptScope, io: IO | None) -> Scope | None:
    """Return the scope for steps of a tool, a hook or a node; its journal is loaded when a step is called."""
    if parent.checkpointer is None and ENGINE.get() is not None:
        return None  # the engine stores the node or the tool, not its parts
    flow = FlowContext(interrupts.place, parent.thread_id, parent.emit, parent.wants, io=io)
    flow.questions, flow.key = interrupts, interrupts.key
    if parent.checkpointer is None:
        return Scope(flow, None, key=interrupts.key)
    journal = partial(
        Journal,
        parent.checkpointer,
        parent.thread_id or "",
        f"steps|{parent.key}",
        parent.lineage,
        owner=parent.owner,
    )
    return Scope(flow, None, key=interrupts.key, source=journal)
