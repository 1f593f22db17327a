"""The graphs that a node runs are found by the names that its code loads, without calling it."""

from __future__ import annotations

from functools import partial, wraps
from types import SimpleNamespace

import pytest

from foldline.graph import START, StateGraph
from foldline.runnables import RunnableLambda
from tests.graph.lines import Log, ask, line

MODULE_GRAPH = line("module")
HOLDER = SimpleNamespace(inner=SimpleNamespace(graph=MODULE_GRAPH))


class Worker:
    def __init__(self, graph) -> None:
        self.graph = graph

    def node(self, state: Log):
        return self.graph.invoke(state)

    def __call__(self, state: Log):
        return self.graph.invoke(state)


def of_closure(graph):
    return lambda state: graph.invoke(state)


def of_a_function_inside(graph):
    def node(state: Log):
        def call():
            return graph.invoke(state)

        return call()

    return node


def of_a_wrapper(graph):
    def node(state: Log):
        return graph.invoke(state)

    @wraps(node)
    def wrapper(state: Log):
        return node(state)

    return wrapper


def of_an_async_function(graph):
    async def node(state: Log):
        return await graph.ainvoke(state)

    return node


WAYS = {
    "itself": lambda graph: graph,
    "closure": of_closure,
    "function inside": of_a_function_inside,
    "wrapper": of_a_wrapper,
    "async": of_an_async_function,
    "bound method": lambda graph: Worker(graph).node,
    "callable object": Worker,
    "partial": lambda graph: partial(lambda state, extra: graph.invoke(state), extra=1),
    "runnable": lambda graph: RunnableLambda(lambda state: graph.invoke(state)),
    "sequence": lambda graph: RunnableLambda(lambda state: state) | graph,
}


def found(action):
    builder = StateGraph(Log)
    builder.add_node("n", action)
    builder.add_edge(START, "n")
    return builder.compile().nodes["n"].subgraphs


@pytest.mark.parametrize("way", WAYS)
def test_G19_a_graph_that_a_node_runs_is_found(way):
    graph = line("a")
    assert found(WAYS[way](graph)) == [graph]


def test_G19_graphs_of_modules_and_of_attributes_are_found():
    assert found(lambda state: MODULE_GRAPH.invoke(state)) == [MODULE_GRAPH]
    assert found(lambda state: HOLDER.inner.graph.invoke(state)) == [MODULE_GRAPH]


@pytest.mark.parametrize("node", [lambda state: {}, lambda state: HOLDER.nothing.graph, len])
def test_G19_a_node_that_runs_no_graph_has_none(node):
    assert found(node) == []


def test_G19_a_property_that_raises_is_passed_over():
    class Broken:
        @property
        def graph(self):
            raise RuntimeError("not now")

    broken = Broken()
    assert found(lambda state: broken.graph.invoke(state)) == []


def test_G19_the_state_of_a_graph_that_a_node_calls_is_that_of_its_task(call, saver, thread):
    inner = line("plan", ("q", ask("q")))
    graph = line(("n", lambda state: inner.invoke({"log": []})), saver=saver)

    call.invoke(graph, {"log": []}, thread)

    (task,) = call.run(graph, "get_state", thread, subgraphs=True).tasks
    assert task.state.values == {"log": ["plan"]}
    assert task.state.next == ("q",)
    nested = task.state.config["configurable"]
    assert nested["checkpoint_map"][""]
    assert nested["checkpoint_map"][nested["checkpoint_ns"]] == nested["checkpoint_id"]
