"""Commands from outside: what they change is kept, and a question that they do not answer stays open."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from foldline.exceptions import UnknownCheckpointError, UsageError
from foldline.graph import (
    END,
    START,
    Command,
    InMemorySaver,
    InvalidRouteError,
    InvalidUpdateError,
    SqliteSaver,
    StateGraph,
    interrupt,
)

ONE = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    items: Annotated[list[Any], operator.add]
    n: int


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    return InMemorySaver() if request.param == "memory" else SqliteSaver(tmp_path / "graph.db")


@pytest.fixture
def graph(saver):
    def ask(state: State) -> State:
        return {"items": [interrupt("?"), state.get("n")]}

    builder = StateGraph(State)
    builder.add_node(ask)
    builder.add_node("more", lambda state: {"items": ["more"]})
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", lambda state: END, ["more", END])
    return builder.compile(checkpointer=saver)


def values(call, graph):
    return call.run(graph, "get_state", ONE).values


def test_an_update_beside_an_answer_is_kept(call, graph):
    call.invoke(graph, {"n": 1}, ONE)

    state = call.invoke(graph, Command(resume="yes", update={"n": 5}), ONE)

    assert state == {"items": ["yes", 5], "n": 5} == values(call, graph)


def test_an_update_alone_leaves_the_question_open(call, graph):
    interrupts = call.invoke(graph, {"n": 1}, ONE)["__interrupt__"]

    state = call.invoke(graph, Command(update={"n": 5}), ONE)

    assert state == {"items": [], "n": 5, "__interrupt__": interrupts}
    assert call.invoke(graph, Command(resume="yes"), ONE)["items"] == ["yes", 5]


def test_a_node_named_beside_an_answer_runs_too(call, graph):
    call.invoke(graph, {"n": 1}, ONE)

    state = call.invoke(graph, Command(resume="yes", goto="more"), ONE)

    assert state["items"] == ["yes", 1, "more"] == values(call, graph)["items"]


def test_a_node_named_while_a_question_is_open_runs_and_the_question_is_asked_again(call, graph):
    call.invoke(graph, {"n": 1}, ONE)

    state = call.invoke(graph, Command(goto="more"), ONE)

    assert [question.value for question in state["__interrupt__"]] == ["?"]
    assert call.invoke(graph, Command(resume="yes"), ONE)["items"] == ["yes", 1, "more"]


def test_a_finished_thread_goes_where_a_command_says_and_not_to_its_beginning(call, graph):
    call.invoke(graph, {"n": 1}, ONE)
    call.invoke(graph, Command(resume="yes"), ONE)

    assert call.invoke(graph, Command(update={"n": 2}), ONE) == {"items": ["yes", 1], "n": 2}
    assert call.invoke(graph, Command(goto="more"), ONE)["items"] == ["yes", 1, "more"]
    assert values(call, graph) == {"items": ["yes", 1, "more"], "n": 2}


def test_what_a_command_cannot_do_is_named(call, graph):
    call.invoke(graph, {"n": 1}, ONE)

    with pytest.raises(InvalidUpdateError, match="the Command has 'm'"):
        call.invoke(graph, Command(resume="yes", update={"m": 5}), ONE)
    with pytest.raises(InvalidRouteError, match="the Command leads to 'nowhere'"):
        call.invoke(graph, Command(goto="nowhere"), ONE)
    call.invoke(graph, Command(resume="yes"), ONE)
    with pytest.raises(UsageError, match="there is nothing to resume"):
        call.invoke(graph, Command(resume="yes"), ONE)


def test_tasks_tell_what_failed_and_what_asks_and_the_thread_keeps_it(call, saver):
    is_broken = [True]

    def fail(state: State) -> State:
        if is_broken[0]:
            raise ValueError("no")
        return {"items": ["mended"]}

    builder = StateGraph(State)
    builder.add_node(fail)
    builder.add_edge(START, "fail")
    graph = builder.compile(checkpointer=saver)
    pieces, tasks = graph.stream({"n": 1}, ONE, stream_mode="tasks"), []

    with pytest.raises(ValueError, match="no"):
        tasks.extend(pieces)

    assert [repr(task.get("error")) for task in tasks] == ["None", "ValueError('no')"]
    (task,) = call.run(graph, "get_state", ONE).tasks
    assert task.error == "ValueError('no')"
    assert isinstance(task.error.exception, ValueError)
    is_broken[0] = False
    assert call.invoke(graph, None, ONE)["items"] == ["mended"]
    assert call.run(graph, "get_state", ONE).tasks == ()


@pytest.mark.parametrize("update", [3, [1], {"m"}])
def test_an_update_of_another_form_is_named_on_an_empty_thread_and_a_used_one(call, graph, update):
    for _ in range(2):
        with pytest.raises(InvalidUpdateError, match="a list of pairs"):
            call.invoke(graph, Command(update=update), ONE)
        call.invoke(graph, {"n": 1}, ONE)
    with pytest.raises(InvalidUpdateError, match="a list of pairs"):
        call.run(graph, "update_state", ONE, update)


def test_an_unknown_checkpoint_is_an_error_of_its_own(call, graph):
    call.invoke(graph, {"n": 1}, ONE)
    place = {"configurable": {"thread_id": "1", "checkpoint_id": "nope"}}

    for value in ({"n": 1}, None, Command(resume="yes")):
        with pytest.raises(UnknownCheckpointError, match="no checkpoint 'nope'"):
            call.invoke(graph, value, place)
    with pytest.raises(UnknownCheckpointError, match="no checkpoint 'nope'"):
        call.run(graph, "get_state", place)
