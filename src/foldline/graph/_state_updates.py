"""Changes of a thread from outside: `update_state` and `bulk_update_state`. One superstep is one checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from foldline._run import Run
from foldline.exceptions import InvalidUpdateError
from foldline.graph._graph_loop import GraphLoop
from foldline.graph._graph_records import (
    GraphThread,
    Target,
    TaskOutcome,
    encode_target,
    plain_metadata,
    record,
)
from foldline.graph._plan import check_target
from foldline.graph._threads import load_thread
from foldline.graph.runtime import Runtime
from foldline.graph.types import END, START, Command, StateUpdate
from foldline.workflows._thread_log import Log, PendingEntry

if TYPE_CHECKING:
    from foldline.graph._parts import GraphParts

__all__ = ["ThreadUpdate"]

COPY = "__copy__"
INPUT = "__input__"
ALONE = (COPY, INPUT, END, None)
"""Values of `as_node` that stand for no task of a step."""
Values = dict[str, Any]


class ThreadUpdate:
    """Changes one thread; its writer owns the thread meanwhile."""

    def __init__(self, graph: GraphParts, run: Run, log: Log) -> None:
        self.graph = graph
        self.run = run
        self.log = log
        self.keys = graph.plan.keys

    async def write(self, supersteps: Sequence[Sequence[StateUpdate]]) -> tuple[str, GraphThread]:
        """Write one checkpoint per superstep, all or none; return the last one's id, and the state before it."""
        log, io = self.log, self.run.io
        at = self.run.configurable.get("checkpoint_id")
        thread = await load_thread(self.graph.plan, log, io, at)
        is_last = thread.head == log.last
        if not is_last:
            thread.begin_branch(with_step=False)
        pending: PendingEntry | None = None
        for updates in supersteps:
            body = await self._change(thread, updates)
            if is_last and log.namespace and body.get("next") == self._encode(thread.next):
                body["keeps"] = True  # the outer run has the question of a nested one
            pending = self._add(thread, body)
        if pending is None:
            raise InvalidUpdateError("bulk_update_state needs at least one superstep")
        await log.flush(io, pending)
        return pending.entry.id, thread

    def _add(self, thread: GraphThread, body: dict[str, Any]) -> PendingEntry:
        lineage = thread.take_fork()
        if lineage is not None:
            body["lineage"] = lineage
        if thread.parents:
            body["parents"] = thread.parents
        metadata = plain_metadata(self.run.call_config.get("metadata"))
        if metadata:
            body["metadata"] = metadata
        pending = self.log.add(body, thread.head)
        thread.advance(pending.entry.id, lineage)
        thread.take(pending.entry.id, body)
        return pending

    def _encode(self, targets: Sequence[Target]) -> list[object]:
        return [encode_target(target, self.keys) for target in targets]

    # -- the record of a change

    async def _change(self, thread: GraphThread, updates: Sequence[StateUpdate]) -> dict[str, Any]:
        """Return the record of a change from outside; no question is open after it."""
        if len(updates) == 1 and updates[0].as_node in ALONE:
            return await self._single_change(thread, updates[0])
        if not updates or any(update.as_node in ALONE for update in updates):
            raise InvalidUpdateError(
                "a superstep needs updates that each name a node; END, None, '__input__' and '__copy__' stand alone"
            )
        return await self._node_change(
            thread,
            [
                (str(update.as_node), self._checked(update), self._targets(update))
                for update in updates
            ],
        )

    async def _single_change(self, thread: GraphThread, update: StateUpdate) -> dict[str, Any]:
        if update.as_node == COPY:
            return record("fork", sibling=True)
        values = self._checked(update)
        encoded = self.keys.encode(values, "update_state")
        if update.as_node == INPUT:
            return {**record("input", values=encoded), "step": thread.step + 1}
        node = update.as_node or self._default_node(thread)
        if node is not None and node != END:
            return await self._node_change(thread, [(node, values, self._targets(update))])
        body = record("update", tasks=[{"name": node or "update_state", "update": encoded}])
        if node == END:
            return self._with_next(body, thread, [], {}, [])
        return self._with_next(body, thread, thread.next, thread.waiting, thread.deferred)

    async def _node_change(
        self, thread: GraphThread, updates: Sequence[tuple[str, Values, list[Target]]]
    ) -> dict[str, Any]:
        plan, outcomes = self.graph.plan, []
        for node, values, goto in updates:
            if node != START and node not in plan.nodes:
                raise InvalidUpdateError(f"update_state(as_node={node!r}): there is no such node")
            targets = [*goto, *await self._branches(thread, node, values)]
            outcomes.append(TaskOutcome(node, values, targets))
        tasks = [
            {"name": node, "update": self.keys.encode(values, "update_state")}
            for node, values, _ in updates
        ]
        targets, waiting, deferred = plan.next_targets(outcomes, thread.waiting, thread.deferred)
        return self._with_next(record("update", tasks=tasks), thread, targets, waiting, deferred)

    async def _branches(self, thread: GraphThread, node: str, values: Values) -> list[Target]:
        """Return the targets that the branches of a node choose after this update."""
        branches = self.graph.plan.branches.get(node)
        if not branches:
            return []
        loop = GraphLoop(self.graph, self.run.patched(kwargs={}), wants=frozenset(), outer=None)
        joined = self.keys.join(thread.values, [(node, values)])
        runtime: Runtime[Any] = Runtime(store=self.graph.store)
        return await loop.ask_branches(branches, node, joined, self.run, runtime)

    def _with_next(
        self,
        body: dict[str, Any],
        thread: GraphThread,
        targets: list[Target],
        waiting: dict[str, list[str]],
        deferred: list[str],
    ) -> dict[str, Any]:
        return {
            **body,
            "step": thread.step + 1,
            "next": self._encode(targets),
            "waiting": waiting,
            "deferred": deferred,
            "paused": thread.is_paused,
        }

    def _checked(self, update: StateUpdate) -> Values:
        values = update.values.update if isinstance(update.values, Command) else update.values
        return self.keys.check(self.keys.as_update(values), "update_state")

    def _targets(self, update: StateUpdate) -> list[Target]:
        """Return the targets of an update that is a command, as if the node had returned it."""
        goto = update.values.goto if isinstance(update.values, Command) else None
        targets = [] if goto is None else list(goto) if isinstance(goto, list | tuple) else [goto]
        return [check_target(target, "update_state", self.graph.plan.nodes) for target in targets]

    def _default_node(self, thread: GraphThread) -> str | None:
        """Return the node that an update without a name counts as: the last node that ran, if it was the only one."""
        if thread.base is None:
            return START
        if not thread.last_nodes:
            return None
        nodes = [name for name in thread.last_nodes if name in self.graph.plan.nodes]
        if len(set(nodes)) == 1:
            return nodes[0]
        if not nodes:
            return None
        raise InvalidUpdateError(
            f"the last step ran {', '.join(sorted(set(nodes)))}: choose one of them, update_state(…, as_node=…)"
        )
