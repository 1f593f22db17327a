"""Sets the context variables for the code of a step: its parent for nested runs, its interrupts, its journal scope."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from foldline.workflows.interrupts import InterruptScope, current_interrupt_scope
from foldline.workflows.journal import Journal
from foldline.workflows.parent import Parent, current_parent
from foldline.workflows.scope import FlowContext, Scope, current_scope

__all__ = ["Parent", "current_parent", "enter_step"]


@contextmanager
def enter_step(parent: Parent, interrupts: InterruptScope) -> Generator[None, None, None]:
    """Set the context for nested runs, steps and interrupts; it must not be held across a `yield` to a caller."""
    parent_token = current_parent.set(parent)
    interrupt_token = current_interrupt_scope.set(interrupts)
    scope_token = current_scope.set(_step_scope(parent, interrupts))
    try:
        yield
    finally:
        current_scope.reset(scope_token)
        current_interrupt_scope.reset(interrupt_token)
        current_parent.reset(parent_token)


def _step_scope(parent: Parent, interrupts: InterruptScope) -> Scope | None:
    """Return the scope for steps of a tool, a hook or a node; its journal is loaded when a step is called."""
    if parent.checkpointer is None:
        return None
    flow = FlowContext(interrupts.place, parent.thread_id, parent.emit, parent.wants)
    flow.questions = interrupts
    journal = partial(
        Journal,
        parent.checkpointer,
        parent.thread_id or "",
        f"steps|{parent.key}",
        parent.lineage,
        owner=parent.owner,
    )
    return Scope(flow, None, key=interrupts.place, source=journal)
