"""Loads the state of a thread from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._io import IO
from foldline.checkpoint.base import Entry
from foldline.exceptions import SchemaError
from foldline.graph.records import BASES, KINDS, GraphThread
from foldline.workflows.journal import chain_of, read_body
from foldline.workflows.log import Log

if TYPE_CHECKING:
    from foldline.graph.compiled import CompiledStateGraph

__all__ = ["load_thread"]


async def load_thread(
    graph: CompiledStateGraph,
    log: Log,
    io: IO,
    at: str | None = None,
    *,
    with_pending: bool = False,
) -> GraphThread:
    """Load the state of a thread, or its state at `at`; `with_pending` includes the results of the step after it."""
    keys = graph.plan.keys
    thread = GraphThread(keys, keys.empty())
    entries = await log.read(io)
    chain = chain_of(entries, at)
    for entry in [*chain, *(_pending_after(entries, at) if at and with_pending else ())]:
        thread.take_entry(entry)
    for target in thread.next:
        name = target if isinstance(target, str) else target.node
        if name not in graph.plan.nodes:
            raise SchemaError(
                f"thread {log.thread_id!r} stands before the node {name!r}, which this graph does not have: use the "
                "graph that began the thread, or move it by update_state(as_node=…)"
            )
    return thread


def _pending_after(entries: list[Entry], at: str) -> list[Entry]:
    """Return the entries between a checkpoint and the next one: finished tasks, questions, and answers to them.

    If the thread continued after them, the answers belong to another branch: they and later entries are left out.
    """
    pending: list[Entry] = []
    kinds: list[str] = []
    current = at
    while True:
        children = [
            entry
            for entry in entries
            if entry.parent == current and read_body(entry, KINDS, "a graph")["kind"] not in BASES
        ]
        if not children:
            break
        pending.append(children[-1])
        kinds.append(read_body(children[-1], KINDS, "a graph")["kind"])
        current = children[-1].id
    has_continued = bool(pending) and pending[-1].id != entries[-1].id
    return pending[: kinds.index("resume")] if has_continued and "resume" in kinds else pending
