"""Errors that say what is wrong and where, in cases in which LangGraph is silent or raises a bare KeyError."""

from __future__ import annotations

import operator
from typing import Annotated, Literal, TypedDict

import pytest

from foldline.exceptions import SchemaError, UsageError
from foldline.graph import (
    END,
    START,
    Command,
    GraphRecursionError,
    InMemorySaver,
    InvalidRouteError,
    InvalidUpdateError,
    Overwrite,
    Send,
    StateGraph,
    interrupt,
)


class State(TypedDict, total=False):
    items: Annotated[list[str], operator.add]
    n: int
    names: list[str]


def of(*nodes, first=None):
    graph = StateGraph(State)
    graph.add_sequence(list(nodes))
    graph.add_edge(
        START, first or (nodes[0][0] if isinstance(nodes[0], tuple) else nodes[0].__name__)
    )
    return graph


def giving(update, name="node"):
    return name, lambda state: update


@pytest.mark.parametrize(
    ("update", "error_text"),
    [
        (
            {"itms": ["a"]},
            r"the node 'node' has 'itms', which is not a key of the state \(items, n, names\)",
        ),
        ({"n": "3"}, "has 'n' with a str, which does not match its type int"),
        (
            {"names": ["a", 4]},
            r"has 'names'\[1\] with a list, which does not match its type list\[str\]",
        ),
        ({"items": 4}, "has 'items' with a int, which its reducer cannot merge into a list"),
        (7, "must return a dict that updates the state, a Command or None, not int"),
    ],
)
def test_an_update_that_the_state_cannot_take_is_named(call, update, error_text):
    with pytest.raises(InvalidUpdateError, match=error_text):
        call.invoke(of(giving(update)).compile(), {"n": 1})


def test_two_nodes_that_give_one_key_in_one_step_are_named(call):
    graph = StateGraph(State)
    for name in ("a", "b"):
        graph.add_node(*giving({"n": 1}, name))
        graph.add_edge(START, name)

    with pytest.raises(InvalidUpdateError, match="'a' and the node 'b' both write 'n' in one step"):
        call.invoke(graph.compile(), {"n": 0})


def test_an_unknown_key_of_the_input_is_named(call):
    with pytest.raises(InvalidUpdateError, match="the input has 'm'"):
        call.invoke(of(giving({})).compile(), {"m": 1})


def test_an_unknown_route_is_named(call):
    graph = of(giving({}))
    graph.add_conditional_edges("node", lambda state: "nowhere")

    with pytest.raises(
        InvalidRouteError, match="of 'node' leads to 'nowhere', which is not a node"
    ):
        call.invoke(graph.compile(), {"n": 1})


def test_an_answer_that_the_path_map_does_not_have_is_named(call):
    def choose(state):
        return "c"

    graph = of(giving({}))
    graph.add_conditional_edges("node", choose, {"a": END, "b": "node"})

    with pytest.raises(
        InvalidRouteError, match="'choose' of 'node' returned 'c', and it can return 'a', 'b'"
    ):
        call.invoke(graph.compile(), {"n": 1})


@pytest.mark.parametrize("goto", ["nowhere", Send("nowhere", {})])
def test_a_command_to_an_unknown_node_is_named(call, goto):
    graph = of(("node", lambda state: Command(goto=goto)))

    with pytest.raises(InvalidRouteError, match="the Command of 'node' leads to 'nowhere'"):
        call.invoke(graph.compile(), {"n": 1})


def test_a_graph_without_a_beginning_is_refused():
    graph = StateGraph(State)
    graph.add_node(*giving({}))

    with pytest.raises(UsageError, match=r"no first node: add one with add_edge\(START"):
        graph.compile()


def test_edges_to_and_from_unknown_nodes_are_refused():
    graph = of(giving({}))
    graph.add_edge("node", "lost")
    with pytest.raises(
        UsageError, match="an edge from 'node' leads to 'lost', which is not a node"
    ):
        graph.compile()

    graph = of(giving({}))
    graph.add_edge("lost", "node")
    with pytest.raises(UsageError, match="an edge begins at 'lost'"):
        graph.compile()


def test_a_node_that_nothing_leads_to_is_refused():
    graph = of(giving({}))
    graph.add_node(*giving({}, "island"))

    with pytest.raises(UsageError, match="nothing leads to the node 'island'"):
        graph.compile()


def test_a_node_that_a_command_leads_to_is_reached():
    def decide(state) -> Command[Literal["island"]]:
        return Command(goto="island")

    graph = StateGraph(State)
    graph.add_node(decide)
    graph.add_node(*giving({"n": 4}, "island"))
    graph.add_edge(START, "decide")

    assert graph.compile().invoke({"n": 1})["n"] == 4


def test_a_wrong_literal_of_a_router_is_refused_at_compile():
    def route(state) -> Literal["nod"]:
        return "nod"

    graph = of(giving({}))
    graph.add_conditional_edges("node", route)

    with pytest.raises(
        UsageError, match="the branch 'route' of 'node' leads to 'nod', which is not a node"
    ):
        graph.compile()


def test_names_that_are_taken_or_reserved_are_refused():
    graph = of(giving({}))
    with pytest.raises(UsageError, match="already has a node 'node'"):
        graph.add_node(*giving({}))
    with pytest.raises(UsageError, match="cannot be named '__end__'"):
        graph.add_node(*giving({}, END))


def test_too_many_steps_are_named(call):
    graph = of(giving({}))
    graph.add_edge("node", "node")

    with pytest.raises(GraphRecursionError, match=r"took 3 steps without finishing \(next: node\)"):
        call.invoke(graph.compile(), {"n": 1}, {"recursion_limit": 3})


def test_an_interrupt_without_a_checkpointer_says_what_is_missing(call):
    with pytest.raises(UsageError, match="interrupt\\(\\) needs a checkpointer and a thread"):
        call.invoke(of(("ask", lambda state: interrupt("?"))).compile(), {"n": 1})


def test_a_checkpointer_without_a_thread_says_what_is_missing(call):
    with pytest.raises(UsageError, match="needs a thread"):
        call.invoke(of(giving({})).compile(checkpointer=InMemorySaver()), {"n": 1})


def test_an_object_that_nothing_declares_is_refused_when_it_is_written(call):
    class Thing:
        pass

    class ObjectState(TypedDict):
        thing: object

    graph = StateGraph(ObjectState)
    graph.add_node("make", lambda state: {"thing": Thing()})
    graph.add_edge(START, "make")

    with pytest.raises(SchemaError, match="'thing' holds a Thing, which cannot be stored"):
        call.invoke(
            graph.compile(checkpointer=InMemorySaver()),
            {"thing": 1},
            {"configurable": {"thread_id": "1"}},
        )


def test_overwrite_goes_past_the_reducer(call):
    result = call.invoke(of(giving({"items": Overwrite(["new"])})).compile(), {"items": ["old"]})

    assert result["items"] == ["new"]


def test_a_thread_of_another_graph_is_refused(call):
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "1"}}
    graph = of(giving({}, "a"), giving({}, "b")).compile(checkpointer=saver, interrupt_before=["b"])
    call.invoke(graph, {"n": 1}, config)
    other = of(giving({}, "a")).compile(checkpointer=saver)

    with pytest.raises(
        SchemaError, match="stands before the node 'b', which this graph does not have"
    ):
        call.invoke(other, None, config)


@pytest.mark.parametrize("value", [True, 0, 0.5, [], [None], "text"])
def test_an_input_that_is_no_dict_is_refused_with_what_the_graph_takes(call, value):
    graph = of(("say", lambda state: {"n": 1})).compile()
    with pytest.raises(UsageError, match="takes a dict with some of items"):
        call.invoke(graph, value)
