"""Reading a thread: which one a config names, and where it stands or stood."""

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
    """Return what followed a checkpoint before the next one: finished tasks, questions, and answers to them.

    Where the thread went on, the answers are those of another branch: they and what came of them are left out.
    """
    found: list[Entry] = []
    kinds: list[str] = []
    current = at
    while True:
        following = [
            one
            for one in entries
            if one.parent == current and read_body(one, KINDS, "a graph")["kind"] not in BASES
        ]
        if not following:
            break
        found.append(following[-1])
        kinds.append(read_body(following[-1], KINDS, "a graph")["kind"])
        current = following[-1].id
    went_on = bool(found) and found[-1].id != entries[-1].id
    return found[: kinds.index("resume")] if went_on and "resume" in kinds else found
