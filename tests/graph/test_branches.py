"""Branches of a thread: replays, state of nested graphs on a branch, and time travel into nested graphs."""

from __future__ import annotations

import pytest

from foldline.exceptions import UnknownInterruptError
from tests.graph.lines import answer, ask, at, fan, line, note, shape

INPUT = {"log": ["in"]}
EMPTY = {"log": []}


def test_G20_a_replay_runs_on_from_its_checkpoint_and_keeps_the_rest(call, saver, thread):
    effects = []
    nodes = [(name, note(name, effects)) for name in "abc"]
    graph = line(*nodes, saver=saver)
    call.invoke(graph, INPUT, thread)
    old = call.run(graph, "get_state_history", thread)
    before_b = at(call, graph, thread, "b")

    result = call.invoke(graph, None, before_b.config)

    state = call.run(graph, "get_state", thread)
    assert (result, effects) == ({"log": ["in", "a", "b", "c"]}, ["a", "b", "c", "b", "c"])
    assert state.metadata["step"] == before_b.metadata["step"] + 3
    for snapshot in old:
        again = call.run(graph, "get_state", snapshot.config)
        assert (again.values, again.next) == (snapshot.values, snapshot.next)


def test_G20_a_fork_keeps_the_ids_of_its_tasks(call, saver, thread):
    graph = line("a", "b", saver=saver)
    call.invoke(graph, INPUT, thread)
    before_b = at(call, graph, thread, "b")

    call.invoke(graph, None, before_b.config)

    fork = call.run(graph, "get_state_history", thread)[1]
    assert fork.metadata["source"] == "fork"
    assert [task.id for task in fork.tasks] == [task.id for task in before_b.tasks]


def test_G20_a_replay_uses_neither_results_nor_answers_of_its_step(call, saver, thread):
    effects = []
    graph = fan(("a", note("a", effects)), ("b", ask("b", effects)), saver=saver)
    call.invoke(graph, INPUT, thread)
    call.invoke(graph, answer(1), thread)
    step = at(call, graph, thread, "a", "b")

    stopped = call.invoke(graph, None, step.config)

    assert [question.value for question in stopped["__interrupt__"]] == ["b"]
    assert call.invoke(graph, answer(2), thread) == {"log": ["in", "a", "b2"]}
    assert effects == ["a", "b", "a", "b"]


def test_G20_from_the_newest_checkpoint_the_step_continues_without_a_fork(call, saver, thread):
    effects = []
    graph = fan(("a", note("a", effects)), ("b", ask("b")), saver=saver)
    call.invoke(graph, INPUT, thread)
    newest = call.run(graph, "get_state", thread).config

    stopped = call.invoke(graph, None, newest)

    assert [question.value for question in stopped["__interrupt__"]] == ["b"]
    assert effects == ["a"]
    assert "fork" not in {item[0] for item in shape(call.run(graph, "get_state_history", thread))}


def test_G20_an_input_is_replayed_too(call, saver, thread):
    graph = line("a", saver=saver)
    call.invoke(graph, INPUT, thread)
    start = call.run(graph, "get_state_history", thread)[-1]

    assert call.invoke(graph, None, start.config) == {"log": ["in", "a"]}
    assert len(call.run(graph, "get_state_history", thread)) > 3


@pytest.mark.parametrize("is_called", [False, True], ids=["a node", "called in a node"])
def test_G21_a_stateful_graph_sees_on_a_branch_what_it_had_there(call, saver, thread, is_called):
    seen = []

    def look(state):
        seen.append(list(state["log"]))
        return {"log": ["s"]}

    inner = line(("s", look), saver=True)
    if not is_called:
        node = inner
    elif call.is_async:

        async def node(state):
            await inner.ainvoke(EMPTY)
    else:

        def node(state):
            inner.invoke(EMPTY)

    graph = line(("sub", node), saver=saver)
    call.invoke(graph, EMPTY, thread)
    call.invoke(graph, EMPTY, thread)
    replayed = at(call, graph, thread, "sub")  # of the second round
    call.invoke(graph, None, replayed.config)
    call.invoke(graph, None, call.run(graph, "get_state_history", thread)[-2].config)

    if is_called:
        assert seen == [[], ["s"], ["s"], []]
    else:  # it is given the outer log, and adds it to its own
        assert seen[2] == seen[1]
        assert seen[3] == seen[0]


def test_G21_a_branch_goes_on_with_its_own_state(call, saver, thread):
    counts = []
    inner = line(
        ("s", lambda state: counts.append(len(state["log"])) or {"log": ["s"]}), saver=True
    )

    if call.is_async:

        async def node(state):
            await inner.ainvoke(EMPTY)
    else:

        def node(state):
            inner.invoke(EMPTY)

    graph = line(("sub", node), saver=saver)
    for _ in range(3):
        call.invoke(graph, EMPTY, thread)
    history = call.run(graph, "get_state_history", thread)
    second = [item for item in history if item.next == ("sub",)][1]
    call.invoke(graph, None, second.config)
    call.invoke(graph, EMPTY, thread)
    call.invoke(graph, EMPTY, thread)

    assert counts == [0, 1, 2, 1, 2, 3]


def travelled(call, saver, thread):
    """A graph whose nested graph has asked, was answered, and the config of the nested question."""
    effects = []
    inner = line(("s1", note("s1", effects)), ("q", ask("q", effects)))
    graph = line(("inner", inner), ("post", note("post", effects)), saver=saver)
    call.invoke(graph, EMPTY, thread)
    config = call.run(graph, "get_state", thread, subgraphs=True).tasks[0].state.config
    assert call.invoke(graph, answer("1"), thread) == {"log": ["s1", "q1", "post"]}
    return graph, config, effects


def test_G22_time_travel_into_a_nested_graph_asks_again_there(call, saver, thread):
    graph, config, effects = travelled(call, saver, thread)

    stopped = call.invoke(graph, None, config)
    result = call.invoke(graph, answer("2"), thread)

    assert [question.value for question in stopped["__interrupt__"]] == ["q"]
    assert result == {"log": ["s1", "q2", "post"]}
    assert effects == ["s1", "q", "post", "q", "post"]


def test_G22_an_edit_of_a_nested_graph_is_continued(call, saver, thread):
    graph, config, effects = travelled(call, saver, thread)

    edited = call.run(graph, "update_state", config, {"log": ["edited"]})
    call.invoke(graph, None, edited)
    result = call.invoke(graph, answer("3"), thread)

    assert result == {"log": ["s1", "edited", "q3", "post"]}
    assert effects == ["s1", "q", "post", "q", "post"]


def test_G22_one_travel_after_another_begins_at_the_same_place(call, saver, thread):
    graph, config, _effects = travelled(call, saver, thread)
    call.invoke(graph, None, config)
    call.invoke(graph, answer("2"), thread)
    edited = call.run(graph, "update_state", config, {"log": ["edited"]})
    call.invoke(graph, None, edited)

    assert call.invoke(graph, answer("3"), thread) == {"log": ["s1", "edited", "q3", "post"]}
    call.invoke(graph, None, config)
    assert call.invoke(graph, answer("4"), thread) == {"log": ["s1", "q4", "post"]}


def test_G22_time_travel_goes_two_graphs_deep(call, saver, thread):
    effects = []
    deep = line(("s1", note("s1", effects)), ("q", ask("q", effects)))
    middle = line(("m", note("m", effects)), ("deep", deep))
    graph = line(("middle", middle), "post", saver=saver)
    call.invoke(graph, EMPTY, thread)
    state = call.run(graph, "get_state", thread, subgraphs=True)
    config = state.tasks[0].state.tasks[0].state.config
    call.invoke(graph, answer("1"), thread)

    stopped = call.invoke(graph, None, config)
    result = call.invoke(graph, answer("2"), thread)

    assert [question.value for question in stopped["__interrupt__"]] == ["q"]
    assert result["log"][-3:] == ["s1", "q2", "post"]
    assert effects == ["m", "s1", "q", "q"]


def test_G22_the_question_of_the_first_branch_is_not_open_on_the_other(call, saver, thread):
    inner = line(("q", ask("q")))
    graph = line(("inner", inner), saver=saver)
    first = call.invoke(graph, EMPTY, thread)["__interrupt__"][0]
    config = call.run(graph, "get_state", thread, subgraphs=True).tasks[0].state.config
    call.invoke(graph, answer("1"), thread)
    call.invoke(graph, None, config)

    with pytest.raises(UnknownInterruptError):
        call.invoke(graph, answer({first.id: "2"}), thread)


def test_G22_a_nested_history_can_be_read_and_replayed(call, saver, thread):
    graph, config, effects = travelled(call, saver, thread)
    nested = {
        "configurable": {
            key: value
            for key, value in config["configurable"].items()
            if key in ("thread_id", "checkpoint_ns")
        }
    }

    history = call.run(graph, "get_state_history", nested)
    first = next(item for item in history if item.next == ("s1",))
    stopped = call.invoke(graph, None, first.config)

    assert [question.value for question in stopped["__interrupt__"]] == ["q"]
    assert call.invoke(graph, answer("5"), thread) == {"log": ["s1", "q5", "post"]}
    assert effects == ["s1", "q", "post", "s1", "q", "post"]
