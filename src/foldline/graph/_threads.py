"""Loads the state of a thread, or the states of all its checkpoints, from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foldline._io import IO
from foldline.agents.state import as_growing, as_plain, indexes_of
from foldline.checkpoint.base import Entry
from foldline.exceptions import SchemaError
from foldline.graph._graph_records import (
    BASES,
    FORM,
    KINDS,
    GraphThread,
    decode_target,
    encode_target,
)
from foldline.graph.schema import StateKeys
from foldline.graph.types import START
from foldline.workflows._journal import read_body
from foldline.workflows._snapshots import fields_of, set_fields
from foldline.workflows._state_fold import Fold
from foldline.workflows._thread_log import Log

if TYPE_CHECKING:
    from foldline.graph._plan import GraphPlan

__all__ = ["all_states", "load_thread"]


class GraphFold(Fold[GraphThread]):
    """How the entries of a graph's thread add up."""

    kind = "graph"

    def __init__(self, keys: StateKeys) -> None:
        self.plan = keys
        self.keys = keys

    def begin(self) -> GraphThread:
        """Return the state before any entry."""
        return GraphThread(self.keys, self.keys.growing())

    def take(self, state: GraphThread, entry: Entry, place: int) -> None:
        """Add an entry."""
        state.take_entry(entry, place)

    def indexes_of(self, state: GraphThread) -> dict[str, Any]:
        """Return the ids of the messages of a state."""
        return indexes_of(state.values)

    def fingerprint(self) -> str:
        """Return a text that differs where the same entries would add up to another state."""
        return self.keys.fingerprint

    def freeze(self, state: GraphThread) -> dict[str, Any] | None:
        """Return a state as JSON; None in the middle of a step."""
        packed = fields_of(state)
        if packed is None:
            return None
        packed["values"] = self.keys.encode(as_plain(state.values), "the state")
        packed["next"] = [encode_target(target, self.keys) for target in state.next]
        return packed

    def thaw(self, packed: dict[str, Any]) -> GraphThread:
        """Return the state of its JSON form."""
        thread = GraphThread(self.keys, self.keys.growing())
        set_fields(thread, packed)
        thread.values = as_growing(
            thread.values, self.keys.decode(packed["values"], "the snapshot")
        )
        thread.next = [decode_target(target, self.keys) for target in packed["next"]]
        return thread

    def plain_values(self, state: GraphThread) -> dict[str, Any]:
        """Return the values of a state, with new lists of messages."""
        return as_plain(state.values)


async def load_thread(
    plan: GraphPlan,
    log: Log,
    io: IO,
    at: str | None = None,
    *,
    with_pending: bool = False,
) -> GraphThread:
    """Load the state of a thread, or its state at `at`; `with_pending` includes the results of the step after it."""
    if at is None:
        thread = await GraphFold(plan.keys).load(log, io)
    else:
        thread = await _load_at(plan.keys, log, io, at, with_pending=with_pending)
    for target in thread.next:
        name = target if isinstance(target, str) else target.node
        if name not in plan.nodes and name != START:
            raise SchemaError(
                f"thread {log.thread_id!r} stands before the node {name!r}, which this graph does not have: use the "
                "graph that began the thread, or move it by update_state(as_node=…)"
            )
    return thread


async def _load_at(
    keys: StateKeys, log: Log, io: IO, at: str, *, with_pending: bool
) -> GraphThread:
    thread = GraphThread(keys, keys.growing())
    entries = await log.read(io)
    chain = log.chain_of(entries, at)
    if with_pending:
        chain += _pending_after(entries, at)
    places = {entry.id: place for place, entry in enumerate(entries)}
    for entry in chain:
        thread.take_entry(entry, places[entry.id])
    thread.values = as_plain(thread.values)
    return thread


def all_states(keys: StateKeys, entries: list[Entry], namespace: str) -> list[GraphThread]:
    """Return the state at each checkpoint of a log, of all branches, the oldest first.

    Each has the results, questions and errors of its step: what followed the checkpoint before the next one.
    """
    after: dict[str | None, GraphThread] = {None: GraphThread(keys, keys.empty())}
    states: dict[str, GraphThread] = {}
    for place, entry in enumerate(entries):
        if entry.parent not in after:
            raise SchemaError(
                f"entry {entry.id} follows {entry.parent}, which does not exist: the log is damaged"
            )
        before = after[entry.parent]
        thread = before.copy()
        thread.values = keys.own_values(before.values)
        kind = thread.take_entry(entry, place)
        after[entry.id] = thread
        if kind == "step" and before.base in states:
            states[before.base] = _with_results(before, entry, namespace)
        if kind in BASES:
            states[entry.id] = thread
        elif thread.base in states:
            states[thread.base] = thread
    return list(states.values())


def _with_results(thread: GraphThread, entry: Entry, namespace: str) -> GraphThread:
    """Return the state of a step with its result that the record of the next checkpoint has: of its only task."""
    body = read_body(entry, KINDS, "a graph", form=FORM)
    if not body.get("tasks"):
        return thread
    thread = thread.copy()
    for task, result in zip(thread.tasks(namespace), body["tasks"], strict=False):
        thread.finished[task.id] = thread.outcome_of(result, f"record {entry.id}")
    return thread


def _pending_after(entries: list[Entry], at: str) -> list[Entry]:
    """Return the entries between a checkpoint and the next one: finished tasks, questions, and answers to them.

    If the thread continued after them, the answers belong to another branch: they and later entries are left out.
    """
    pending: list[Entry] = []
    kinds: list[str] = []
    children: dict[str, Entry] = {}
    for entry in entries:
        if entry.parent is not None:
            children[entry.parent] = entry
    current = children.get(at)
    while current is not None:
        kind = read_body(current, KINDS, "a graph", form=FORM)["kind"]
        if kind in BASES:
            break
        pending.append(current)
        kinds.append(kind)
        current = children.get(current.id)
    has_continued = bool(pending) and pending[-1].id != entries[-1].id
    return pending[: kinds.index("resume")] if has_continued and "resume" in kinds else pending
