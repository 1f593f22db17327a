"""Graphs in graphs: breakpoints, namespaces, and how long their state lives."""

from __future__ import annotations

import pytest

from foldline.exceptions import EmptyInputError
from foldline.graph import StateGraph, get_config
from tests.graph.lines import Log, answer, ask, line, note

EMPTY = {"log": []}


def test_G16_a_breakpoint_in_a_nested_graph_stops_the_outer_run(call, saver, thread):
    effects = []
    inner = line(
        ("plan", note("plan", effects)),
        ("delete", note("delete", effects)),
        interrupt_before=["delete"],
    )
    graph = line(("inner", inner), ("post", note("post", effects)), saver=saver)

    stopped = call.invoke(graph, EMPTY, thread)
    state = call.run(graph, "get_state", thread)

    assert (stopped, state.next, state.interrupts) == (EMPTY, ("inner",), ())
    assert effects == ["plan"]
    assert call.invoke(graph, None, thread) == {"log": ["plan", "delete", "post"]}
    assert effects == ["plan", "delete", "post"]


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize(
    "value", [None, answer("yes"), answer({})], ids=["none", "an answer", "no answer"]
)
def test_G16_a_nested_breakpoint_is_left_by_none_and_by_any_answer(
    call, saver, thread, option, value
):
    effects, node = [], {"interrupt_before": "delete", "interrupt_after": "plan"}[option]
    inner = line(
        ("plan", note("plan", effects)), ("delete", note("delete", effects)), **{option: [node]}
    )
    middle = line(("inner", inner))
    graph = line(("middle", middle), "post", saver=saver)
    call.invoke(graph, EMPTY, thread)

    assert call.invoke(graph, value, thread) == {"log": ["plan", "delete", "post"]}
    assert effects == ["plan", "delete"]


def test_G16_a_breakpoint_of_a_graph_that_a_node_calls_stops_the_outer_run(call, saver, thread):
    effects = []
    inner = line(
        ("plan", note("plan", effects)),
        ("delete", note("delete", effects)),
        interrupt_before=["delete"],
    )

    if call.is_async:

        async def node(state):
            return await inner.ainvoke(EMPTY)
    else:

        def node(state):
            return inner.invoke(EMPTY)

    graph = line(("node", node), "post", saver=saver)

    assert call.invoke(graph, EMPTY, thread) == EMPTY
    assert call.run(graph, "get_state", thread).next == ("node",)
    assert call.invoke(graph, None, thread) == {"log": ["plan", "delete", "post"]}
    assert effects == ["plan", "delete"]


def test_G16_the_tasks_beside_a_nested_breakpoint_are_not_repeated(call, saver, thread):
    effects = []
    inner = line("x", "y", interrupt_before=["y"])
    builder = StateGraph(Log)
    builder.add_node("inner", inner)
    builder.add_node("beside", note("beside", effects))
    builder.set_entry_point("inner")
    builder.set_entry_point("beside")
    graph = builder.compile(checkpointer=saver)

    assert call.invoke(graph, EMPTY, thread) == {"log": ["beside"]}
    assert call.run(graph, "get_state", thread).next == ("inner",)
    assert call.invoke(graph, None, thread) == {"log": ["beside", "x", "y"]}
    assert effects == ["beside"]


def calls_both(call, first, second, results=None):
    """A node that calls two graphs, one after the other."""

    def joined(one, two):
        if results is not None:
            results.append((one["log"], two["log"]))
        return EMPTY

    if call.is_async:

        async def node(state):
            return joined(await first.ainvoke({"log": [1]}), await second.ainvoke({"log": [2]}))
    else:

        def node(state):
            return joined(first.invoke({"log": [1]}), second.invoke({"log": [2]}))

    return node


@pytest.mark.parametrize("is_stateful", [False, True], ids=["per step", "stateful"])
def test_G17_each_graph_that_a_node_calls_has_a_namespace(call, saver, thread, is_stateful):
    own = True if is_stateful else None
    graph = line(
        ("both", calls_both(call, line("x", saver=own), line("y", saver=own))), saver=saver
    )

    chunks = call.stream(graph, EMPTY, thread, stream_mode="updates", subgraphs=True)

    task = next(
        snapshot.tasks[0]
        for snapshot in call.run(graph, "get_state_history", thread)
        if snapshot.next == ("both",)
    )
    label = "both" if is_stateful else f"both:{task.id}"
    assert [namespace for namespace, _ in chunks] == [(label,), (label, "1"), ()]


def test_G17_a_node_finds_its_namespace_in_its_config(call, saver, thread):
    namespaces = {}

    def look(name):
        def node(state, config):
            namespaces[name] = get_config()["configurable"]["checkpoint_ns"]
            assert config["configurable"]["checkpoint_ns"] == namespaces[name]
            return EMPTY

        return node

    inner = line(("x", look("x")))
    graph = line(("a", look("a")), ("inner", inner), saver=saver)
    call.invoke(graph, EMPTY, thread)

    ids = {
        task.name: task.id
        for snapshot in call.run(graph, "get_state_history", thread)
        for task in snapshot.tasks
    }
    outer, _, last = namespaces["x"].partition("|")
    assert namespaces["a"] == f"a:{ids['a']}"
    assert outer == f"inner:{ids['inner']}"
    assert last.startswith("x:")


def test_G17_two_stateful_graphs_of_one_node_do_not_share_their_state(call, saver, thread):
    results = []
    node = calls_both(call, line("x", saver=True), line("y", saver=True), results)
    graph = line(("both", node), saver=saver)

    call.invoke(graph, EMPTY, thread)
    call.invoke(graph, EMPTY, thread)

    assert results == [([1, "x"], [2, "y"]), ([1, "x", 1, "x"], [2, "y", 2, "y"])]


def test_G18_a_stateful_graph_has_a_state_per_position_of_its_call(call, saver, thread):
    results, inner = [], line("y", saver=True)
    graph = line(("same", calls_both(call, inner, inner, results)), saver=saver)

    call.invoke(graph, EMPTY, thread)

    assert [tuple(map(len, pair)) for pair in results] == [(2, 2)]


def test_G18_the_state_of_a_nested_graph_ends_with_the_outer_step(call, saver, thread):
    results, inner = [], line("y")
    graph = line(("same", calls_both(call, inner, inner, results)), saver=saver)

    call.invoke(graph, EMPTY, thread)
    call.invoke(graph, EMPTY, thread)

    assert results == [([1, "y"], [2, "y"])] * 2


def test_G18_a_nested_graph_that_stores_nothing_asks_through_the_outer_run(call, saver, thread):
    effects = []
    inner = line(("x", note("x", effects)), ("q", ask("q", effects)), saver=False)
    graph = line(("inner", inner), ("post", note("post", effects)), saver=saver)

    question = call.invoke(graph, EMPTY, thread)["__interrupt__"][0]
    result = call.invoke(graph, answer(1), thread)

    assert question.value == "q"
    assert result == {"log": ["x", "q1", "post"]}
    assert effects == ["x", "x", "q", "post"]  # it begins again: nothing of it was stored
    thread_id = thread["configurable"]["thread_id"]
    assert saver.read(thread_id, "")
    assert saver.read(thread_id, "inner") == []


def test_G18_a_question_of_a_nested_graph_does_not_repeat_what_it_finished(call, saver, thread):
    effects = []
    inner = line(("x", note("x", effects)), ("q", ask("q", effects)))
    graph = line(("inner", inner), saver=saver)

    call.invoke(graph, EMPTY, thread)
    result = call.invoke(graph, answer(1), thread)

    assert (result, effects) == ({"log": ["x", "q1"]}, ["x", "q"])


def test_G8_a_nested_graph_called_with_none_has_nothing_to_continue(call, saver, thread):
    inner = line("x", name="lookup")

    if call.is_async:

        async def node(state):
            return await inner.ainvoke(None)
    else:

        def node(state):
            return inner.invoke(None)

    graph = line(("node", node), saver=saver)

    with pytest.raises(EmptyInputError, match="lookup"):
        call.invoke(graph, EMPTY, thread)
