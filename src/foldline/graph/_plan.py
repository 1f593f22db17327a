"""`GraphPlan`: the validated nodes and edges of a graph, and which nodes follow others. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from foldline.exceptions import InvalidRouteError, UsageError
from foldline.graph._graph_records import Target, TaskOutcome
from foldline.graph._node_spec import InputShape, NodeSpec
from foldline.graph.schema import StateKeys
from foldline.graph.types import END, START, Send

__all__ = ["Branch", "GraphPlan", "WaitingEdge"]


@dataclass(frozen=True, slots=True)
class WaitingEdge:
    """An edge that is taken when all of several nodes have run."""

    sources: tuple[str, ...]
    target: str

    @property
    def key(self) -> str:
        """Its name in records."""
        return f"{'+'.join(self.sources)}>{self.target}"


@dataclass(slots=True)
class Branch:
    """A function that chooses the next nodes after a node."""

    name: str
    path: Any
    ends: dict[Any, str] | None
    """Its possible results and their nodes; None if it may return any node."""
    wants: tuple[str, ...]
    count: int

    def targets(self, answer: object, source: str, nodes: dict[str, NodeSpec]) -> list[Target]:
        """Return the targets of a result; raise `InvalidRouteError` if there is no such node."""
        choices = answer if isinstance(answer, list | tuple) else [answer]
        where = f"the branch {self.name!r} of {source!r}"
        targets: list[Target] = []
        for choice in choices:
            if isinstance(choice, Send):
                check_target(choice, where, nodes)
                targets.append(choice)
                continue
            target = choice
            if self.ends is not None:
                if choice not in self.ends:
                    raise InvalidRouteError(
                        f"{where} returned {choice!r}, and it can return {', '.join(map(repr, self.ends))}: "
                        "add it to path_map, or correct the function"
                    )
                target = self.ends[choice]
            targets.append(check_target(target, where, nodes))
        return targets


def check_target(target: object, where: str, nodes: dict[str, NodeSpec]) -> Target:
    """Return a target; raise `InvalidRouteError` if there is no such node."""
    name = target.node if isinstance(target, Send) else target
    if name == END and not isinstance(target, Send):
        return END
    if not isinstance(name, str) or name not in nodes:
        raise InvalidRouteError(
            f"{where} leads to {name!r}, which is not a node of this graph: use one of {', '.join(nodes)}, or END"
        )
    return target if isinstance(target, Send) else name


@dataclass
class GraphPlan:
    """The nodes and edges of a graph."""

    keys: StateKeys
    nodes: dict[str, NodeSpec]
    edges: list[tuple[str, str]]
    branches: dict[str, list[Branch]]
    waiting: list[WaitingEdge]
    state: InputShape
    input: InputShape
    output: InputShape
    context_schema: type | None = None
    follows: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for source, target in self.edges:
            self.follows.setdefault(source, []).append(target)

    # -- the next nodes

    def next_targets(
        self, outcomes: Sequence[TaskOutcome], waiting: dict[str, list[str]], deferred: list[str]
    ) -> tuple[list[Target], dict[str, list[str]], list[str]]:
        """Return the targets after a step, the waiting edges, and the deferred nodes, which run when no others do."""
        candidates: list[Target] = []
        for outcome in outcomes:
            candidates += self.follows.get(outcome.name, ())
            candidates += outcome.goto
        waiting = {key: list(names) for key, names in waiting.items()}
        finished_nodes = {outcome.name for outcome in outcomes}
        for edge in self.waiting:
            finished_sources = {*waiting.get(edge.key, ()), *(finished_nodes & set(edge.sources))}
            waiting[edge.key] = sorted(finished_sources)
            if finished_sources >= set(edge.sources):
                candidates.append(edge.target)
                del waiting[edge.key]
        waiting = {key: names for key, names in waiting.items() if names}
        targets: list[Target] = []
        for target in candidates:
            name = target.node if isinstance(target, Send) else target
            if target == END or (isinstance(target, str) and target in targets):
                continue
            if isinstance(target, str) and self.nodes[name].defer:
                if name not in deferred:
                    deferred = [*deferred, name]
                continue
            targets.append(target)
        if not targets and deferred:
            return list(deferred), waiting, []
        return targets, waiting, deferred

    # -- checking

    def check(self, stops: Sequence[str]) -> None:
        """Raise `UsageError` if a node or an edge is missing."""
        for source, target in [*self.edges, *self._waiting_pairs()]:
            self._check_edge(source, target)
        self._check_branches()
        if START not in self.follows and START not in self.branches:
            raise UsageError("the graph has no first node: add one with add_edge(START, …)")
        for name in stops:
            if name not in self.nodes:
                raise UsageError(
                    f"interrupt_before or interrupt_after names {name!r}, which is not a node"
                )
        self._check_reachable()

    def _check_branches(self) -> None:
        for source, branches in self.branches.items():
            if source != START and source not in self.nodes:
                raise UsageError(
                    f"conditional edges begin at {source!r}, which is not a node: add_node first"
                )
            for branch in branches:
                for target in (branch.ends or {}).values():
                    self._check_name(target, f"the branch {branch.name!r} of {source!r}")
        for name, spec in self.nodes.items():
            for target in spec.destinations or ():
                self._check_name(target, f"the Command of {name!r}")

    def _waiting_pairs(self) -> list[tuple[str, str]]:
        return [(source, edge.target) for edge in self.waiting for source in edge.sources]

    def _check_edge(self, source: str, target: str) -> None:
        if source != START and source not in self.nodes:
            raise UsageError(
                f"an edge begins at {source!r}, which is not a node: add_node({source!r}, …)"
            )
        self._check_name(target, f"an edge from {source!r}")

    def _check_name(self, target: str, where: str) -> None:
        if target != END and target not in self.nodes:
            raise UsageError(
                f"{where} leads to {target!r}, which is not a node: add_node({target!r}, …), or correct the name"
            )

    def _check_reachable(self) -> None:
        reached: set[str] = set()
        frontier = set(self.ends_of(START) or self.nodes)
        while frontier:
            reached |= frontier
            next_nodes: set[str] = set()
            for name in frontier & set(self.nodes):
                ends = self.ends_of(name)
                if ends is None:
                    return  # this node may lead to any node
                next_nodes.update(ends)
            frontier = next_nodes - reached
        unreachable = [name for name in self.nodes if name not in reached]
        if unreachable:
            raise UsageError(
                f"nothing leads to the node {unreachable[0]!r}: add an edge to it, name it in path_map or in "
                f"Command[Literal[{unreachable[0]!r}]], or remove it"
            )

    def ends_of(self, name: str) -> list[str] | None:
        """Return the nodes that a node may lead to; None if that is not known before it runs."""
        ends = list(self.follows.get(name, ()))
        ends += [edge.target for edge in self.waiting if name in edge.sources]
        for branch in self.branches.get(name, ()):
            if branch.ends is None:
                return None
            ends += branch.ends.values()
        spec = self.nodes.get(name)
        if spec is not None:
            if spec.may_go_anywhere or _has_parent_commands(spec):
                return None
            ends += spec.destinations or ()
        return ends


def _has_parent_commands(spec: NodeSpec) -> bool:
    """Whether a nested graph may send its parent to any node."""
    inner_nodes: Iterable[NodeSpec] = getattr(spec.action, "graph_nodes", {}).values()
    return any(node.may_go_anywhere or node.destinations is not None for node in inner_nodes)
