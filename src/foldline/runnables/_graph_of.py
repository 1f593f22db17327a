"""The graph of each kind of runnable, for `get_graph`.

A user's class that overrides `get_graph` is not inspected further.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from foldline._config import RunnableConfig, merge_configs
from foldline.runnables import _types
from foldline.runnables.base import Runnable
from foldline.runnables.binding import RunnableBindingBase
from foldline.runnables.configurable import DynamicRunnable
from foldline.runnables.each import RunnableEachBase
from foldline.runnables.graph import Graph, Node
from foldline.runnables.lambda_ import RunnableLambda
from foldline.runnables.parallel import RunnableParallel
from foldline.runnables.passthrough import RunnableAssign, RunnablePassthrough
from foldline.runnables.sequence import RunnableSequence
from foldline.runnables.utils import get_function_nonlocals

Side = Literal["input", "output"]
AnyRunnable = Runnable[Any, Any]


def graph_of(runnable: AnyRunnable, config: RunnableConfig | None) -> Graph:
    """Return the graph of a runnable: its parts and the edges between them."""
    for kind, build in BUILDERS.items():
        if isinstance(runnable, kind):
            return build(runnable, config)
    return _single_node(runnable, config)


def _type_node(
    graph: Graph, runnable: AnyRunnable, side: Side, config: RunnableConfig | None
) -> Node:
    """Add the node of an input or output, also if the runnable cannot return its schema."""
    try:
        schema = getattr(runnable, f"get_{side}_schema")(config)
    except Exception:  # noqa: BLE001  the author's property may raise anything
        schema = _types.object_model(runnable.get_name(side.title()), {})
    return graph.add_node(schema)


def _single_node(runnable: AnyRunnable, config: RunnableConfig | None) -> Graph:
    graph = Graph()
    first = _type_node(graph, runnable, "input", config)
    middle = graph.add_node(runnable, metadata=(config or {}).get("metadata") or None)
    last = _type_node(graph, runnable, "output", config)
    graph.add_edge(first, middle)
    graph.add_edge(middle, last)
    return graph


def _sequence(sequence: RunnableSequence[Any, Any], config: RunnableConfig | None) -> Graph:
    graph = Graph()
    steps = sequence.steps
    end: Node | None = None
    for index, step in enumerate(steps):
        part = step.get_graph(config)
        if index > 0:
            part.trim_first_node()
        if index < len(steps) - 1:
            part.trim_last_node()
        first, last = graph.extend(part)
        if index > 0 and first is not None and end is not None:
            graph.add_edge(end, first)
        if last is not None:
            end = last
    return graph


def _parallel(parallel: RunnableParallel[Any], config: RunnableConfig | None) -> Graph:
    return _side_by_side(parallel, list(parallel.steps__.values()), config)


def _side_by_side(
    runnable: AnyRunnable, branches: list[AnyRunnable], config: RunnableConfig | None
) -> Graph:
    graph = Graph()
    begin = _type_node(graph, runnable, "input", config)
    end = _type_node(graph, runnable, "output", config)
    for branch in branches:
        part = branch.get_graph(config)
        part.trim_first_node()
        part.trim_last_node()
        first, last = graph.extend(part)
        if first is not None and last is not None:
            graph.add_edge(begin, first)
            graph.add_edge(last, end)
    return graph


def _assign(assign: RunnableAssign, config: RunnableConfig | None) -> Graph:
    graph = assign.mapper.get_graph(config)
    begin, end = graph.first_node(), graph.last_node()
    passing = graph.add_node(RunnablePassthrough())
    if begin is not None and end is not None:
        graph.add_edge(begin, passing)
        graph.add_edge(passing, end)
    return graph


def _lambda(function: RunnableLambda[Any, Any], config: RunnableConfig | None) -> Graph:
    runnables = _runnables_called_by(function)
    return (
        _side_by_side(function, runnables, config) if runnables else _single_node(function, config)
    )


def _runnables_called_by(function: RunnableLambda[Any, Any]) -> list[AnyRunnable]:
    target = function.func or function.afunc
    values = get_function_nonlocals(target) if target is not None else []
    # `chain.invoke` names both the chain and its method.
    owners = [getattr(value, "__self__", value) for value in values]
    runnables: list[AnyRunnable] = []
    for owner in owners:
        if (
            isinstance(owner, Runnable)
            and owner is not function
            and all(owner is not runnable for runnable in runnables)
        ):
            runnables.append(owner)
    return runnables


def _bound_graph(binding: RunnableBindingBase[Any, Any], config: RunnableConfig | None) -> Graph:
    bound_config = getattr(binding, "config", None)
    return binding.bound.get_graph(
        merge_configs(bound_config, config) if bound_config or config else None
    )


def _dynamic(dynamic: DynamicRunnable[Any, Any], config: RunnableConfig | None) -> Graph:
    runnable, prepared_config = dynamic.prepare(config)
    return runnable.get_graph(prepared_config)


BUILDERS: dict[type[Any], Callable[[Any, RunnableConfig | None], Graph]] = {
    RunnableSequence: _sequence,
    RunnableParallel: _parallel,
    RunnableAssign: _assign,
    RunnableLambda: _lambda,
    RunnableBindingBase: _bound_graph,
    RunnableEachBase: _bound_graph,
    DynamicRunnable: _dynamic,
}
