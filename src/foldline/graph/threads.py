"""Reading a thread: which one a config names, and where it stands or stood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from foldline._io import IO
from foldline.checkpoint.base import Entry
from foldline.exceptions import SchemaError, UsageError
from foldline.graph.records import BASES, KINDS, GraphThread
from foldline.workflows.journal import chain_of, read_body
from foldline.workflows.log import Log

if TYPE_CHECKING:
    from foldline.graph.compiled import CompiledStateGraph

__all__ = ["load_thread", "thread_of"]


async def load_thread(
    graph: CompiledStateGraph,
    log: Log,
    io: IO,
    at: str | None = None,
    *,
    with_pending: bool = False,
) -> GraphThread:
    """Read where a thread stands, or stood; with what had come of the step then under way, if that is asked for."""
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
    """Return the entries that follow a checkpoint before the next one: finished tasks, questions, answers."""
    found: list[Entry] = []
    current = at
    while True:
        following = [
            one
            for one in entries
            if one.parent == current and read_body(one, KINDS, "a graph")["kind"] not in BASES
        ]
        if not following:
            return found
        found.append(following[-1])
        current = following[-1].id


def thread_of(configurable: Mapping[str, Any], name: str) -> str:
    """Return the thread that a config names."""
    thread_id = configurable.get("thread_id")
    if thread_id is None:
        raise UsageError(
            f'{name} has a checkpointer and needs a thread: config={{"configurable": {{"thread_id": "…"}}}}'
        )
    return str(thread_id)
