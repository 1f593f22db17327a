"""A fork of a graph's thread sees what came before it, and does its own part anew."""

from __future__ import annotations

from typing import TypedDict

import pytest

from foldline.checkpoint import InMemorySaver, SqliteSaver
from foldline.graph import END, START, StateGraph
from foldline.workflows import Command, interrupt, step, workflow

THREAD = {"configurable": {"thread_id": "t1"}}


class State(TypedDict, total=False):
    answer: str


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "graphs.db")) as sqlite_saver:
            yield sqlite_saver


def compiled(node, saver=None):
    builder = StateGraph(State)
    builder.add_node("work", node)
    builder.add_edge(START, "work")
    builder.add_edge("work", END)
    return builder.compile(checkpointer=saver)


def make(kind, effects, saver):
    @step
    def do(text: str) -> str:
        effects.append(text)
        return text

    def work(state: State) -> State:
        do("before")
        answer = interrupt("go on?")
        do("after")
        return {"answer": answer}

    @workflow
    def flow(state: State) -> str:
        return work(state)["answer"]

    inner = compiled(work)
    nodes = {
        "node": work,
        "graph": inner,
        "called graph": lambda state: inner.invoke({}),
        "flow": lambda state: {"answer": flow(state)},
    }
    return compiled(nodes[kind], saver)


KINDS = ["node", "graph", "called graph", "flow"]


@pytest.mark.parametrize("kind", KINDS)
def test_another_answer_repeats_only_what_came_of_the_first(saver, kind):
    effects: list[str] = []
    graph = make(kind, effects, saver)
    graph.invoke({}, THREAD)
    config = graph.get_state(THREAD).config

    assert graph.invoke(Command(resume="yes"), THREAD)["answer"] == "yes"
    assert graph.invoke(Command(resume="no"), config)["answer"] == "no"

    assert effects == ["before", "after", "after"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_replay_from_an_earlier_checkpoint_does_everything_anew(saver, kind):
    effects: list[str] = []
    graph = make(kind, effects, saver)
    graph.invoke({}, THREAD)
    graph.invoke(Command(resume="yes"), THREAD)
    before = next(
        snapshot for snapshot in graph.get_state_history(THREAD) if snapshot.next == ("work",)
    )

    assert graph.invoke(None, before.config)["__interrupt__"]
    assert graph.invoke(Command(resume="again"), THREAD)["answer"] == "again"

    assert effects == ["before", "after", "before", "after"]
