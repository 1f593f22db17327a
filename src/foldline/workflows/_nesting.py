"""Sets the context variables for the code of a step: its parent for nested runs, its interrupts, its journal scope.

The code of a step is the program's own: a node, a tool, a hook. It may run other agents and graphs, call steps, start
tasks and ask questions, and none of these calls is passed anything that says where it happens. So they find it in three
context variables:

- `current_parent`: a run that begins here is nested in this step. It takes its namespace and thread from the parent,
  and sends its events through it.
- `current_interrupt_scope`: `interrupt()` counts its questions here, per step and in the order of the calls, so that
  the same question is recognised when the code runs again, and finds its answer.
- `current_scope`: steps and tasks that the code calls are recorded here, so that they are not repeated with it.

All three are set together, or a nested run would be recorded under one step and ask under another. They are set by
`enter_step` and not held across a `yield` to a caller: a generator runs in the context of whoever reads it, so what is
set there would leak to the reader, and would be reset in another context than it was set in.

Journals are lazy: most tools call no steps, and loading a journal costs a read of the store. So the scope is given a
`source`, from which it is loaded when the first step is called; and for code that only starts tasks (`task_scope`), a
scope without a journal is enough.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from foldline._io import IO
from foldline.workflows._flow_scope import FlowContext, Scope, current_scope
from foldline.workflows._journal import Journal
from foldline.workflows._parent_run import Parent, current_parent
from foldline.workflows.durability import ENGINE
from foldline.workflows.interrupts import InterruptScope, current_interrupt_scope

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
