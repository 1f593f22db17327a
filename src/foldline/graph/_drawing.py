"""Converts the nodes and edges of a graph to a drawable `Graph`. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from foldline.graph._plan import GraphPlan
from foldline.graph.types import END, START
from foldline.runnables.base import Runnable
from foldline.runnables.graph import Graph

__all__ = ["draw_plan"]

DrawnEdge = tuple[str, str, str | None, bool]
"""Source, target and label of an edge, and whether it is conditional."""


def draw_plan(plan: GraphPlan, depth: int = 0) -> Graph:
    """Return a graph's nodes and edges; nested graphs are included down to a depth."""
    graph = Graph()
    graph.add_node(None, START)
    first, last = _add_nodes(graph, plan, depth)
    graph.add_node(None, END)
    drawn: set[tuple[str, str]] = set()
    for source, target, label, is_conditional in _edges(plan):
        begin, end = last.get(source, source), first.get(target, target)
        if (begin, end) not in drawn:
            drawn.add((begin, end))
            graph.add_edge(graph.nodes[begin], graph.nodes[end], label, is_conditional)
    if not any(edge.target == END for edge in graph.edges):
        graph.remove_node(graph.nodes[END])
    return graph


def _add_nodes(graph: Graph, plan: GraphPlan, depth: int) -> tuple[dict[str, str], dict[str, str]]:
    """Add the nodes; return the first and the last node of each nested graph."""
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for name, spec in plan.nodes.items():
        inner = getattr(spec.action, "plan", None)
        if depth > 0 and isinstance(inner, GraphPlan):
            nested = draw_plan(inner, depth - 1)
            nested.trim_first_node()
            nested.trim_last_node()
            entry_node, exit_node = graph.extend(nested, prefix=name)
            if entry_node is not None and exit_node is not None:
                first[name], last[name] = entry_node.id, exit_node.id
                continue
        data = spec.action if isinstance(spec.action, Runnable) else None
        graph.add_node(data, name, metadata={"defer": True} if spec.defer else spec.metadata)
    return first, last


def _edges(plan: GraphPlan) -> Iterator[DrawnEdge]:
    for source, target in sorted(plan.edges):
        yield source, target, None, False
    for edge in plan.waiting:
        for source in edge.sources:
            yield source, edge.target, None, False
    yield from _conditional_edges(plan)
    for name in plan.nodes:
        if plan.ends_of(name) == []:
            yield name, END, None, False


def _conditional_edges(plan: GraphPlan) -> Iterator[DrawnEdge]:
    for source, branches in plan.branches.items():
        for branch in branches:
            ends = branch.ends or {name: name for name in (*plan.nodes, END)}
            for answer, target in ends.items():
                yield source, target, None if answer == target else str(answer), True
    for name, spec in plan.nodes.items():
        for target, label in (spec.destinations or {}).items():
            yield name, target, label, True
