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

__all__ = ["Parent", "current_parent", "enter_step", "task_scope"]


@contextmanager
def enter_step(
    parent: Parent, interrupts: InterruptScope, io: IO | None = None
) -> Generator[None, None, None]:
    """Set the context for nested runs, steps and interrupts; it must not be held across a `yield` to a caller.

    The tasks that the code starts are in `parent.tasks`; `finish_tasks` waits for them.
    """
    parent.io = io
    parent_token = current_parent.set(parent)
    interrupt_token = current_interrupt_scope.set(interrupts)
    scope_token = current_scope.set(_step_scope(parent, interrupts))
    try:
        yield
    finally:
        current_scope.reset(scope_token)
        current_interrupt_scope.reset(interrupt_token)
        current_parent.reset(parent_token)


def task_scope() -> Scope | None:
    """Return the scope in which a task is started; None outside of flows, nodes and tools."""
    scope, parent = current_scope.get(), current_parent.get()
    interrupts = current_interrupt_scope.get()
    if scope is not None or parent is None or interrupts is None:
        return scope
    if ENGINE.get() is not None:
        return None  # the engine stores the node or the tool, not its parts
    if parent.scope is None:
        parent.scope = Scope(_step_context(parent, interrupts), None, key=interrupts.key)
    own_scope: Scope = parent.scope
    return own_scope


def _step_context(parent: Parent, interrupts: InterruptScope) -> FlowContext:
    flow = FlowContext(interrupts.place, parent.thread_id, parent.emit, parent.wants, io=parent.io)
    flow.questions, flow.key = interrupts, interrupts.key
    parent.tasks = flow.tasks
    return flow


def _step_scope(parent: Parent, interrupts: InterruptScope) -> Scope | None:
    """Return the scope for steps of a tool, a hook or a node; its journal is loaded when a step is called."""
    if parent.checkpointer is None:
        return None
    flow = _step_context(parent, interrupts)
    journal = partial(
        Journal,
        parent.checkpointer,
        parent.thread_id or "",
        f"steps|{parent.key}",
        parent.lineage,
        owner=parent.owner,
    )
    return Scope(flow, None, key=interrupts.key, source=journal)
