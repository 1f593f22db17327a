"""The nodes and edges of a graph as a `Graph` that can be drawn. Pure."""

from __future__ import annotations

from foldline.graph.plan import GraphPlan
from foldline.graph.types import END, START
from foldline.runnables.base import Runnable
from foldline.runnables.graph import Graph

__all__ = ["draw_plan"]


def draw_plan(plan: GraphPlan, depth: int = 0) -> Graph:
    """Return a graph's nodes and edges; graphs inside are drawn too, down to a depth."""
    graph = Graph()
    graph.add_node(None, START)
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for name, spec in plan.nodes.items():
        inner = getattr(spec.action, "plan", None)
        if depth > 0 and isinstance(inner, GraphPlan):
            drawn = draw_plan(inner, depth - 1)
            drawn.trim_first_node()
            drawn.trim_last_node()
            entry, leave = graph.extend(drawn, prefix=name)
            if entry is not None and leave is not None:
                first[name], last[name] = entry.id, leave.id
                continue
        data = spec.action if isinstance(spec.action, Runnable) else None
        metadata = {"defer": True} if spec.defer else spec.metadata
        graph.add_node(data, name, metadata=metadata)
    graph.add_node(None, END)
    drawn_edges: set[tuple[str, str]] = set()

    def connect(
        source: str, target: str, label: str | None = None, *, is_conditional: bool = False
    ) -> None:
        begin, end = last.get(source, source), first.get(target, target)
        if (begin, end) not in drawn_edges:
            drawn_edges.add((begin, end))
            graph.add_edge(graph.nodes[begin], graph.nodes[end], label, is_conditional)

    for source, target in sorted(plan.edges):
        connect(source, target)
    for edge in plan.waiting:
        for source in edge.sources:
            connect(source, edge.target)
    for source, branches in plan.branches.items():
        for branch in branches:
            ends = branch.ends or {name: name for name in (*plan.nodes, END)}
            for answer, target in ends.items():
                label = None if answer == target else str(answer)
                connect(source, target, label, is_conditional=True)
    for name, spec in plan.nodes.items():
        for target, label in (spec.destinations or {}).items():
            connect(name, target, label, is_conditional=True)
    for name in plan.nodes:
        if not plan.ends_of(name) and not spec_goes_on(plan, name):
            connect(name, END)
    if not any(edge.target == END for edge in graph.edges):
        graph.remove_node(graph.nodes[END])
    return graph


def spec_goes_on(plan: GraphPlan, name: str) -> bool:
    """Whether a node leads somewhere that only its run knows."""
    return plan.ends_of(name) is None
