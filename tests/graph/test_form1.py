"""Threads that the first form of records wrote go on: their data was written by the release before the second form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foldline.checkpoint import Entry
from foldline.exceptions import NothingToResumeError, UnknownInterruptError
from foldline.graph import START
from tests.graph.lines import answer, ask, at, fan, line, note, shape

DATA = Path(__file__).parent / "data" / "form1.json"


@pytest.fixture
def stored(saver):
    """Puts a stored thread into the saver, and returns its config."""
    threads = json.loads(DATA.read_text(encoding="utf-8"))

    def put(name):
        saver.delete_thread(name)
        for namespace, entries in threads[name].items():
            saver.append(
                name,
                namespace,
                [Entry(item["id"], item["parent"], json.dumps(item["body"])) for item in entries],
                after=None,
            )
        return {"configurable": {"thread_id": name}}

    return put


def asking(saver, effects):
    return line(
        ("a", note("a", effects)), ("b", ask("b", effects)), ("c", note("c", effects)), saver=saver
    )


def test_a_finished_thread_has_its_state_and_takes_another_round(call, saver, stored):
    effects, thread = [], stored("finished")
    graph = line(("a", note("a", effects)), ("b", note("b", effects)), saver=saver)

    assert call.invoke(graph, None, thread) == {"log": ["in", "a", "b"]}
    assert effects == []
    result = call.invoke(graph, {"log": ["more"]}, thread)

    assert result == {"log": ["in", "a", "b", "more", "a", "b"]}
    assert effects == ["a", "b"]
    assert shape(call.run(graph, "get_state_history", thread)) == [
        ("loop", 6, (), ["in", "a", "b", "more", "a", "b"]),
        ("loop", 5, ("b",), ["in", "a", "b", "more", "a"]),
        ("loop", 4, ("a",), ["in", "a", "b", "more"]),
        ("input", 3, (START,), ["in", "a", "b"]),
        ("loop", 2, (), ["in", "a", "b"]),
        ("loop", 1, ("b",), ["in", "a"]),
        ("input", 0, ("a",), ["in"]),
    ]


def test_a_stopped_thread_takes_its_answer(call, saver, stored):
    effects, thread = [], stored("question")
    graph = asking(saver, effects)

    state = call.run(graph, "get_state", thread)
    result = call.invoke(graph, answer({state.interrupts[0].id: 1}), thread)

    assert (state.next, state.tasks[0].interrupts) == (("b",), state.interrupts)
    assert (result, effects) == ({"log": ["in", "a", "b1", "c"]}, ["b", "c"])
    with pytest.raises(NothingToResumeError):
        call.invoke(graph, answer(1), thread)


def test_a_stopped_thread_refuses_an_answer_to_another_question(call, saver, stored):
    effects, thread = [], stored("question")
    graph = asking(saver, effects)

    with pytest.raises(UnknownInterruptError):
        call.invoke(graph, answer({"0" * 32: 1}), thread)

    assert effects == []


def test_a_run_that_was_killed_after_its_answer_goes_on_with_it(call, saver, stored):
    effects, thread = [], stored("answered")
    graph = asking(saver, effects)

    assert call.invoke(graph, None, thread) == {"log": ["in", "a", "b7", "c"]}
    assert effects == ["b", "c"]


def test_a_thread_at_a_breakpoint_goes_on(call, saver, stored):
    effects, thread = [], stored("breakpoint")
    nodes = [(name, note(name, effects)) for name in "abc"]
    graph = line(*nodes, saver=saver, interrupt_before=["b"])

    assert call.run(graph, "get_state", thread).next == ("b",)
    assert call.invoke(graph, None, thread) == {"log": ["in", "a", "b", "c"]}
    assert effects == ["b", "c"]


def test_the_second_graph_of_a_node_goes_on_at_its_question(call, saver, stored):
    effects, thread = [], stored("second nested")
    first = line(("x", note("x", effects)))
    second = line(("y", note("y", effects)), ("z", ask("z", effects)))

    if call.is_async:

        async def both(state):
            one, two = await first.ainvoke({"log": []}), await second.ainvoke({"log": []})
            return {"log": [*one["log"], *two["log"]]}
    else:

        def both(state):
            one, two = first.invoke({"log": []}), second.invoke({"log": []})
            return {"log": [*one["log"], *two["log"]]}

    graph = line(("a", note("a", effects)), ("both", both), ("c", note("c", effects)), saver=saver)

    result = call.invoke(graph, answer(1), thread)

    assert (result, effects) == ({"log": ["in", "a", "x", "y", "z1", "c"]}, ["z", "c"])


def test_a_nested_graph_with_its_own_thread_keeps_its_state(call, saver, stored):
    thread, inner = stored("stateful"), line("y", saver=True)

    if call.is_async:

        async def count(state):
            return {"log": [len((await inner.ainvoke({"log": ["q"]}))["log"])]}
    else:

        def count(state):
            return {"log": [len(inner.invoke({"log": ["q"]})["log"])]}

    graph = line(("n", count), saver=saver)

    assert call.invoke(graph, {"log": []}, thread) == {"log": ["in", 2, "in", 4, 6]}
    assert call.invoke(graph, {"log": []}, thread) == {"log": ["in", 2, "in", 4, 6, 8]}


def test_a_step_of_which_a_half_is_done_is_finished(call, saver, stored):
    effects, thread = [], stored("half a step")
    graph = fan(("a", note("a", effects)), ("b", ask("b", effects)), saver=saver)

    state = call.run(graph, "get_state", thread)
    result = call.invoke(graph, answer(1), thread)

    assert (state.next, state.values) == (("b",), {"log": ["in", "a"]})
    assert (result, effects) == ({"log": ["in", "a", "b1"]}, ["b"])


def test_a_forked_thread_goes_on_with_its_newest_branch(call, saver, stored):
    effects, thread = [], stored("fork")
    graph = asking(saver, effects)
    ends = [
        item.values["log"] for item in call.run(graph, "get_state_history", thread) if not item.next
    ]

    result = call.invoke(graph, answer(3), thread)

    assert sorted(ends) == [["in", "a", "b1", "c"], ["in", "a", "b2", "c"]]
    assert result == {"log": ["in", "a", "b2", "c", "more", "a", "b3", "c"]}
    assert effects == ["b", "c"]


def test_a_stored_thread_is_replayed_from_an_earlier_checkpoint(call, saver, stored):
    effects, thread = [], stored("fork")
    graph = asking(saver, effects)
    first = [item for item in call.run(graph, "get_state_history", thread) if item.next == ("b",)][
        -1
    ]

    stopped = call.invoke(graph, None, first.config)
    result = call.invoke(graph, answer(9), thread)

    assert [question.value for question in stopped["__interrupt__"]] == ["b"]
    assert (result, effects) == ({"log": ["in", "a", "b9", "c"]}, ["b", "c"])
    assert at(call, graph, thread, "c").values == {"log": ["in", "a", "b9"]}
