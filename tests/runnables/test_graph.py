"""Graphs: which parts a runnable shows, how they hang together, and how graphs are changed."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.language_models.fake_chat_models import FakeListChatModel
from foldline.runnables import (
    ConfigurableField,
    Runnable,
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
    RunnableSequence,
)
from foldline.runnables.graph import Edge, Graph, Node, is_uuid, node_data_json, node_data_str


def f(x: Any) -> Any:
    return x


def g(x: Any) -> Any:
    return x


F: Any = RunnableLambda(f)
G: Any = RunnableLambda(g)


def outline(runnable: Any) -> tuple[list[str], list[str]]:
    """The names of the parts, and the edges as text."""
    graph = runnable.get_graph()
    readable = graph.reid()
    return (
        [node.name for node in graph.nodes.values()],
        [f"{edge.source} > {edge.target}" for edge in readable.edges],
    )


def test_one_runnable_between_its_schemas():
    assert outline(F) == (["f_input", "f", "f_output"], ["f_input > f", "f > f_output"])


def test_a_sequence_shows_its_steps_in_order():
    nodes, edges = outline(F | FakeListChatModel(responses=["a"]) | G)

    assert nodes == ["f_input", "f", "FakeListChatModel", "g", "g_output"]
    assert set(edges) == {
        "f_input > f",
        "f > FakeListChatModel",
        "FakeListChatModel > g",
        "g > g_output",
    }


def test_the_same_runnable_twice_is_two_parts():
    nodes, edges = outline(F | F)

    assert nodes == ["f_input", "f", "f", "f_output"]
    assert set(edges) == {"f_input > f_1", "f_1 > f_2", "f_2 > f_output"}


def test_a_parallel_shows_its_branches_side_by_side():
    nodes, edges = outline(F | RunnableParallel(a=F, b=F | G) | G)

    assert nodes == [
        "f_input",
        "f",
        "Parallel<a,b>Input",
        "Parallel<a,b>Output",
        "f",
        "f",
        "g",
        "g",
        "g_output",
    ]
    assert set(edges) == {
        "f_input > f_1",
        "f_1 > Parallel<a,b>Input",
        "Parallel<a,b>Input > f_2",
        "f_2 > Parallel<a,b>Output",
        "Parallel<a,b>Input > f_3",
        "f_3 > g_1",
        "g_1 > Parallel<a,b>Output",
        "Parallel<a,b>Output > g_2",
        "g_2 > g_output",
    }


def test_assigning_shows_what_passes_beside_what_is_made():
    nodes, edges = outline(RunnablePassthrough.assign(z=F))

    assert nodes == ["Parallel<z>Input", "Parallel<z>Output", "f", "Passthrough"]
    assert "Parallel<z>Input > Passthrough" in edges
    assert "Passthrough > Parallel<z>Output" in edges


@pytest.mark.parametrize(
    "wrapped",
    [
        F.bind(a=1), F.with_config(tags=["t"]), F.with_retry(), F.map(), F.with_types(input_type=int),
        F.configurable_alternatives(ConfigurableField(id="w"), other=G),
    ],
)  # fmt: skip
def test_what_only_passes_on_shows_what_is_inside(wrapped):
    assert outline(wrapped)[0][1] == "f"


def test_what_chooses_at_run_time_is_one_part():
    assert outline(RunnableBranch((f, F), G))[0] == ["BranchInput", "Branch", "BranchOutput"]
    assert outline(F.with_fallbacks([G]))[0] == ["f_input", "WithFallbacks", "f_output"]


def test_a_function_shows_the_runnables_that_it_calls():
    inner = F | G

    def call_it(x: Any) -> Any:
        return inner.invoke(x)

    assert outline(RunnableLambda(call_it))[0] == ["call_it_input", "call_it_output", "f", "g"]


def test_a_named_sequence_is_shown_with_its_steps():
    assert outline(RunnableSequence(F, G, name="inner") | F)[0] == [
        "f_input",
        "f",
        "g",
        "f",
        "f_output",
    ]


def test_a_class_with_a_graph_of_its_own_is_asked():
    class Agent(Runnable[Any, Any]):
        def get_graph(self, config: Any = None) -> Graph:
            graph = Graph()
            start, end = graph.add_node(None, "start"), graph.add_node(None, "end")
            graph.add_edge(start, end, "go", conditional=True)
            return graph

    nodes, edges = outline(F | Agent())
    assert nodes == ["f_input", "f", "end"]
    assert edges == ["f_input > f", "f > end"]


def test_bound_metadata_is_on_the_parts():
    graph = F.with_config(metadata={"version": 2}).get_graph()

    assert [node.metadata for node in graph.nodes.values()] == [None, {"version": 2}, None]


def test_graphs_are_described_in_json():
    assert (F | G).get_graph().to_json() == {
        "nodes": [
            {"id": 0, "type": "schema", "data": "f_input"},
            {"id": 1, "type": "runnable", "data": {"id": [*ID, "RunnableLambda"], "name": "f"}},
            {"id": 2, "type": "runnable", "data": {"id": [*ID, "RunnableLambda"], "name": "g"}},
            {"id": 3, "type": "schema", "data": "g_output"},
        ],
        "edges": [
            {"source": 0, "target": 1},
            {"source": 2, "target": 3},
            {"source": 1, "target": 2},
        ],
    }
    with_schemas = F.get_graph().to_json(with_schemas=True)
    assert with_schemas["nodes"][0]["data"] == {"title": "f_input"}
    graph = Graph()
    graph.add_edge(
        graph.add_node(None, "a"),
        graph.add_node(F, "b", metadata={"m": 1}),
        "label",
        conditional=True,
    )
    assert graph.to_json()["edges"] == [
        {"source": "a", "target": "b", "data": "label", "conditional": True}
    ]
    assert graph.to_json()["nodes"][1]["metadata"] == {"m": 1}


ID = ["foldline", "runnables", "lambda_"]


def test_the_prompts_of_a_chain_are_found():
    class Prompt(RunnablePassthrough[Any]):
        _run_type = "prompt"

    prompt = Prompt()
    assert (F | {"a": prompt, "b": G}).get_prompts() == [prompt]


# -- changing graphs


def test_nodes_and_edges_are_added_and_removed():
    graph = Graph()
    a, b = graph.add_node(F, "a"), graph.add_node(G)
    edge = graph.add_edge(a, b)

    assert graph
    assert is_uuid(b.id)
    assert edge == Edge(source="a", target=b.id)
    assert (graph.first_node(), graph.last_node()) == (a, b)
    graph.remove_node(b)
    assert graph.edges == []
    assert list(graph.nodes) == ["a"]
    assert not Graph()


def test_wrong_nodes_are_refused_by_name():
    graph = Graph()
    a = graph.add_node(F, "a")

    with pytest.raises(UsageError, match="has a node 'a' already"):
        graph.add_node(G, "a")
    with pytest.raises(UsageError, match="the target 'b' is not in the graph"):
        graph.add_edge(a, Node("b", "b", None, None))
    with pytest.raises(UsageError, match="the source 'b' is not in the graph"):
        graph.add_edge(Node("b", "b", None, None), a)


def test_graphs_are_joined_under_a_prefix_where_ids_were_chosen():
    part = Graph()
    part.add_edge(part.add_node(F, "x"), part.add_node(G, "y"))
    graph = Graph()

    first, last = graph.extend(part, prefix="sub")
    assert (first and first.id, last and last.id) == ("sub:x", "sub:y")
    assert graph.edges == [Edge(source="sub:x", target="sub:y")]
    first_node, _ = graph.extend(F.get_graph(), prefix="ignored")
    assert first_node is not None
    assert is_uuid(first_node.id)


def test_ends_are_trimmed_only_where_one_end_is_left():
    single, parallel = F.get_graph(), RunnableParallel(a=F, b=G).get_graph()

    for graph in (single, parallel):
        graph.trim_first_node()
        graph.trim_last_node()
    assert [node.name for node in single.nodes.values()] == ["f"]
    assert len(parallel.nodes) == 4
    single.trim_first_node()
    assert len(single.nodes) == 1
    two = Graph()
    two.add_node(F, "a")
    two.add_node(F, "b")
    assert two.first_node() is None


def test_names_of_parts():
    assert node_data_str("chosen", F) == "chosen"
    assert node_data_str(Graph().next_id(), RunnablePassthrough()) == "Passthrough"
    assert node_data_json(Node("a", "a", None, None)) == {}
    assert Node("a", "a", None, None).copy(id="b").id == "b"
    assert Edge("a", "b").copy(target="c") == Edge("a", "c")


def test_pictures_that_need_others_are_refused_with_what_to_do():
    with pytest.raises(UsageError, match=r"use graph\.draw_svg\(\)"):
        F.get_graph().draw_mermaid_png(max_retries=2)
    with pytest.raises(UsageError, match=r"use graph\.draw_svg"):
        F.get_graph().draw_png("graph.png")
