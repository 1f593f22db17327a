"""The history of a thread: its checkpoints, their numbers, tasks and branches; the present and the record."""

from __future__ import annotations

from typing import Annotated, TypedDict

import pytest

from foldline.exceptions import (
    EmptyInputError,
    InvalidRouteError,
    InvalidUpdateError,
    UsageError,
)
from foldline.graph import END, START, Command, Send, StateGraph, StateUpdate
from tests.graph.lines import Log, answer, ask, at, fan, line, note, shape

INPUT = {"log": ["in"]}


def boom(state):
    raise RuntimeError("boom")


def test_G1_a_round_writes_its_input_and_its_plan_before_the_first_node(call, saver, thread):
    graph = line("a", "b", saver=saver)

    call.invoke(graph, INPUT, thread)

    assert shape(call.run(graph, "get_state_history", thread)) == [
        ("loop", 2, (), ["in", "a", "b"]),
        ("loop", 1, ("b",), ["in", "a"]),
        ("loop", 0, ("a",), ["in"]),
        ("input", -1, (START,), []),
    ]


def test_G1_a_failing_first_node_leaves_the_input_and_the_plan(call, saver, thread):
    graph = line(("a", boom), saver=saver)

    with pytest.raises(RuntimeError, match="boom"):
        call.invoke(graph, INPUT, thread)

    assert shape(call.run(graph, "get_state_history", thread)) == [
        ("loop", 0, ("a",), ["in"]),
        ("input", -1, (START,), []),
    ]


def test_G2_steps_count_on_in_a_second_round(call, saver, thread):
    graph = line("a", "b", saver=saver)

    call.invoke(graph, INPUT, thread)
    call.invoke(graph, {"log": []}, thread)

    history = call.run(graph, "get_state_history", thread)
    assert history[0].metadata == {"source": "loop", "step": 6, "parents": {}}
    assert [snapshot.metadata["step"] for snapshot in history] == [6, 5, 4, 3, 2, 1, 0, -1]
    assert shape(history)[3][:3] == ("input", 3, (START,))


def test_G2_a_fork_and_an_update_have_the_next_number(call, saver, thread):
    graph = line("a", "b", saver=saver)
    call.invoke(graph, INPUT, thread)
    before_b = at(call, graph, thread, "b")

    call.run(graph, "update_state", thread, {"log": ["x"]}, "b")
    updated = call.run(graph, "get_state", thread)
    call.invoke(graph, None, before_b.config)

    assert (updated.metadata["source"], updated.metadata["step"]) == ("update", 3)
    assert shape(call.run(graph, "get_state_history", thread))[1][:3] == ("fork", 2, ("b",))


def test_G2_metadata_has_that_of_the_run(call, saver, thread):
    graph = line("a", ("b", ask("b")), saver=saver)
    metadata = {"user": "ann", "tries": [1, {"deep": None}], "step": 99, "object": object()}

    call.invoke(graph, INPUT, {**thread, "metadata": metadata})
    first = call.run(graph, "get_state", thread).metadata
    call.invoke(graph, answer(1), {**thread, "metadata": {"user": "bob"}})
    second = call.run(graph, "get_state", thread).metadata
    call.invoke(graph, INPUT, thread)
    third = call.run(graph, "get_state", thread).metadata
    of_ann = call.run(graph, "get_state_history", thread, filter={"user": "ann"})

    kept = {"user": "ann", "tries": [1, {"deep": None}]}
    assert first == {**kept, "source": "loop", "step": 1, "parents": {}}
    assert second == {"user": "bob", "source": "loop", "step": 2, "parents": {}}
    assert third == {"source": "loop", "step": 5, "parents": {}}
    assert [item.metadata["step"] for item in of_ann] == [1, 0, -1]


def test_G2_a_nested_checkpoint_names_the_outer_one(call, saver, thread):
    graph = line(("inner", line("x", ("q", ask("q")))), saver=saver)
    call.invoke(graph, INPUT, thread)

    snapshot = call.run(graph, "get_state", thread, subgraphs=True)

    nested = snapshot.tasks[0].state
    assert nested.metadata["parents"] == {"": snapshot.config["configurable"]["checkpoint_id"]}


def test_G3_the_history_has_the_checkpoints_of_all_branches(call, saver, thread):
    graph = line("a", "b", saver=saver)
    call.invoke(graph, INPUT, thread)
    old = call.run(graph, "get_state_history", thread)
    before_b = old[1]

    call.invoke(graph, None, before_b.config)

    history = call.run(graph, "get_state_history", thread)
    assert shape(history[:2]) == [
        ("loop", 3, (), ["in", "a", "b"]),
        ("fork", 2, ("b",), ["in", "a"]),
    ]
    assert history[1].parent_config == before_b.config
    assert history[0].parent_config == history[1].config
    assert [item.config for item in history[2:]] == [item.config for item in old]
    assert [item.parent_config for item in history[2:]] == [item.parent_config for item in old]


def test_G3_before_takes_a_checkpoint_of_any_branch(call, saver, thread):
    graph = line("a", "b", saver=saver)
    call.invoke(graph, INPUT, thread)
    old_end = call.run(graph, "get_state", thread)
    call.invoke(graph, None, at(call, graph, thread, "b").config)
    history = call.run(graph, "get_state_history", thread)

    earlier = call.run(graph, "get_state_history", thread, before=old_end.config)
    newest = call.run(graph, "get_state_history", thread, before=history[0].config, limit=1)

    assert [item.config for item in earlier] == [item.config for item in history[3:]]
    assert [item.config for item in newest] == [history[1].config]


def test_G4_a_snapshot_of_the_history_has_the_results_of_its_step(call, saver, thread):
    graph = line("a", "b", saver=saver)
    call.invoke(graph, INPUT, thread)

    results = [
        (task.name, task.result)
        for snapshot in call.run(graph, "get_state_history", thread)
        for task in snapshot.tasks
    ]

    assert results == [("b", {"log": ["b"]}), ("a", {"log": ["a"]}), (START, {"log": ["in"]})]


def test_G4_a_snapshot_of_the_history_has_the_questions_that_its_step_asked(call, saver, thread):
    graph = line(("a", ask("a")), "b", saver=saver)
    call.invoke(graph, INPUT, thread)
    call.invoke(graph, answer(1), thread)

    before_a = at(call, graph, thread, "a")

    assert [question.value for question in before_a.tasks[0].interrupts] == ["a"]
    assert before_a.tasks[0].result == {"log": ["a1"]}
    assert call.run(graph, "get_state", thread).interrupts == ()


def test_G4_the_error_of_a_task_is_text_and_has_the_exception(call, saver, thread):
    graph = fan("a", ("b", boom), saver=saver)
    with pytest.raises(RuntimeError, match="boom"):
        call.invoke(graph, INPUT, thread)

    present = call.run(graph, "get_state", thread)
    recorded = call.run(graph, "get_state_history", thread)[0]

    for snapshot in (present, recorded):
        errors = {task.name: task.error for task in snapshot.tasks}
        assert errors["a"] is None
        assert "RuntimeError('boom')" in errors["b"]
        assert isinstance(errors["b"].exception, RuntimeError)


def test_G5_the_present_has_what_finished_and_the_record_has_the_step(call, saver, thread):
    graph = fan(("a", note("A")), ("b", ask("b")), saver=saver)
    call.invoke(graph, INPUT, thread)

    present = call.run(graph, "get_state", thread)
    recorded = call.run(graph, "get_state", present.config)

    assert (present.next, present.values) == (("b",), {"log": ["in", "A"]})
    assert [(task.name, task.result, len(task.interrupts)) for task in present.tasks] == [
        ("a", {"log": ["A"]}, 0),
        ("b", None, 1),
    ]
    assert (recorded.next, recorded.values) == (("a", "b"), {"log": ["in"]})
    assert [question.value for question in recorded.interrupts] == ["b"]


def test_G6_a_step_that_stops_returns_the_values_of_its_finished_tasks(call, saver, thread):
    graph = fan(("a", note("A")), ("b", ask("b")), saver=saver)

    stopped = call.invoke(graph, INPUT, thread)
    chunks = call.stream(graph, answer(1), thread, stream_mode="updates")

    assert stopped["log"] == ["in", "A"]
    assert chunks == [
        {"a": {"log": ["A"]}, "__metadata__": {"cached": True}},
        {"b": {"log": ["b1"]}},
    ]
    assert call.run(graph, "get_state", thread).values == {"log": ["in", "A", "b1"]}


def test_G7_a_run_with_durability_exit_is_one_checkpoint(call, saver, thread):
    graph = line("a", "b", saver=saver)

    call.invoke(graph, INPUT, thread, durability="exit")
    first = call.run(graph, "get_state_history", thread)
    call.invoke(graph, {"log": ["again"]}, thread, durability="exit")
    second = call.run(graph, "get_state_history", thread)

    assert [(item.values["log"], item.parent_config) for item in first] == [
        (["in", "a", "b"], None)
    ]
    assert len(second) == 2
    assert second[0].values["log"] == ["in", "a", "b", "again", "a", "b"]
    assert second[0].parent_config == first[0].config


def test_G7_a_run_with_durability_exit_that_stops_or_fails_is_stored_too(call, saver, thread):
    failures = ["once"]

    def fragile(state):
        if failures:
            failures.pop()
            raise RuntimeError("boom")
        return {"log": ["c"]}

    graph = line("a", ("b", ask("b")), ("c", fragile), saver=saver)

    call.invoke(graph, INPUT, thread, durability="exit")
    stopped = call.run(graph, "get_state", thread)
    with pytest.raises(RuntimeError, match="boom"):
        call.invoke(graph, answer(1), thread, durability="exit")
    failed = call.run(graph, "get_state", thread)
    result = call.invoke(graph, None, thread, durability="exit")

    assert (stopped.next, [item.value for item in stopped.interrupts]) == (("b",), ["b"])
    assert failed.next == ("c",)
    assert "boom" in failed.tasks[0].error
    assert result["log"] == ["in", "a", "b1", "c"]


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_G7_other_durabilities_store_every_checkpoint(call, saver, thread, durability):
    graph = line("a", "b", saver=saver)

    call.invoke(graph, INPUT, thread, durability=durability)

    history = call.run(graph, "get_state_history", thread)
    assert [item.metadata["step"] for item in history] == [2, 1, 0, -1]


def test_G8_none_on_a_finished_thread_returns_its_state_and_runs_nothing(call, saver, thread):
    effects = []
    graph = line(("a", note("a", effects)), saver=saver)
    call.invoke(graph, INPUT, thread)
    before = call.run(graph, "get_state_history", thread)

    assert call.invoke(graph, None, thread) == {"log": ["in", "a"]}

    assert effects == ["a"]
    assert call.run(graph, "get_state_history", thread) == before


def test_G8_none_on_an_empty_thread_is_an_error_that_names_the_graph(call, saver, thread):
    graph = line("a", saver=saver, name="orders")

    with pytest.raises(EmptyInputError, match="orders") as caught:
        call.invoke(graph, None, thread)

    assert isinstance(caught.value, UsageError)
    assert call.run(graph, "get_state_history", thread) == []


def test_G9_an_update_as_end_leaves_nothing_next(call, saver, thread):
    graph = line("a", "b", saver=saver, interrupt_before=["b"])
    call.invoke(graph, INPUT, thread)

    call.run(graph, "update_state", thread, {"log": ["x"]}, END)

    state = call.run(graph, "get_state", thread)
    assert (state.next, state.values) == ((), {"log": ["in", "a", "x"]})


def test_G9_an_update_as_input_is_an_input_that_has_not_run(call, saver, thread):
    graph = line("a", "b", saver=saver)

    call.run(graph, "update_state", thread, INPUT, "__input__")

    assert shape(call.run(graph, "get_state_history", thread)) == [("input", -1, (START,), [])]
    assert call.invoke(graph, None, thread) == {"log": ["in", "a", "b"]}


def test_G9_a_copy_is_a_sibling_of_its_checkpoint(call, saver, thread):
    effects = []
    graph = line("a", ("b", note("b", effects)), saver=saver)
    call.invoke(graph, INPUT, thread)
    before_b = at(call, graph, thread, "b")

    copy = call.run(graph, "update_state", before_b.config, None, "__copy__")
    state = call.run(graph, "get_state", copy)
    result = call.invoke(graph, None, copy)

    assert state.metadata["source"] == "fork"
    assert state.parent_config == before_b.parent_config
    assert (state.next, state.values) == (("b",), before_b.values)
    assert result == {"log": ["in", "a", "b"]}
    assert effects == ["b", "b"]


def test_G9_an_update_closes_the_questions_and_the_step_asks_again(call, saver, thread):
    graph = line(("a", ask("a")), saver=saver)
    old = call.invoke(graph, INPUT, thread)["__interrupt__"][0]

    call.run(graph, "update_state", thread, {"log": ["x"]})
    closed = call.run(graph, "get_state", thread)
    again = call.invoke(graph, None, thread)["__interrupt__"][0]

    assert (closed.interrupts, closed.next) == ((), ("a",))
    assert (again.value, again.id == old.id) == ("a", False)
    assert call.invoke(graph, answer(2), thread) == {"log": ["in", "x", "a2"]}


def test_G9_no_values_and_no_node_clear_what_the_step_left_over(call, saver, thread):
    effects = []
    graph = fan(("a", note("a", effects)), ("b", ask("b")), saver=saver)
    call.invoke(graph, INPUT, thread)

    call.run(graph, "update_state", thread, None)
    state = call.run(graph, "get_state", thread)

    assert (state.next, state.interrupts, state.values) == (("a", "b"), (), INPUT)
    assert call.invoke(graph, None, thread)["log"] == ["in", "a"]
    assert call.invoke(graph, Command(resume=1), thread)["log"] == ["in", "a", "b1"]
    assert effects == ["a", "a"]


def test_G10_updates_of_several_steps_are_one_checkpoint_each(call, saver, thread):
    graph = line("a", "b", saver=saver)
    steps = [
        [StateUpdate({"log": ["q"]}, "__input__")],
        [StateUpdate({"log": ["q"]}, START)],
        [StateUpdate({"log": ["x"]}, "a")],
    ]

    config = call.run(graph, "bulk_update_state", thread, steps)

    assert shape(call.run(graph, "get_state_history", thread)) == [
        ("update", 1, ("b",), ["q", "x"]),
        ("update", 0, ("a",), ["q"]),
        ("input", -1, (START,), []),
    ]
    assert call.run(graph, "get_state", thread).config == config
    assert call.invoke(graph, None, thread) == {"log": ["q", "x", "b"]}


def test_G10_updates_of_several_nodes_in_one_step_are_joined(call, saver, thread):
    graph = fan("a", "b", saver=saver)
    updates = [StateUpdate({"log": ["x"]}, "a"), StateUpdate({"log": ["y"]}, "b")]

    call.run(graph, "bulk_update_state", thread, [[StateUpdate(INPUT, START)], updates])

    state = call.run(graph, "get_state", thread)
    assert (state.next, state.values) == ((), {"log": ["in", "x", "y"]})


def test_G10_a_step_that_is_wrong_leaves_nothing_of_the_others(call, saver, thread):
    graph = line("a", "b", saver=saver)
    steps = [[StateUpdate(INPUT, START)], [StateUpdate(INPUT, "nowhere")]]

    with pytest.raises(InvalidUpdateError, match="there is no such node"):
        call.run(graph, "bulk_update_state", thread, steps)
    with pytest.raises(InvalidUpdateError, match="stand alone"):
        call.run(graph, "bulk_update_state", thread, [[*steps[0], StateUpdate(INPUT, END)]])
    with pytest.raises(InvalidUpdateError, match="at least one superstep"):
        call.run(graph, "bulk_update_state", thread, [])

    assert list(call.run(graph, "get_state_history", thread)) == []


def test_G10_an_update_may_be_the_command_of_a_node(call, saver, thread):
    def work(state):
        return {"log": [f"worked on {state['item']}"]}

    builder = StateGraph(Log).add_node("plan", lambda _: Command(goto=END)).add_node("work", work)
    graph = builder.add_edge(START, "plan").compile(checkpointer=saver)
    command = Command(
        update={"log": ["planned"]}, goto=[Send("work", {"item": 1}), Send("work", {"item": 2})]
    )
    supersteps = [[StateUpdate({"log": ["in"]}, "__start__")], [StateUpdate(command, "plan")]]

    call.run(graph, "bulk_update_state", thread, supersteps)

    assert call.run(graph, "get_state", thread).next == ("work", "work")
    assert call.invoke(graph, None, thread)["log"] == [
        "in",
        "planned",
        "worked on 1",
        "worked on 2",
    ]
    with pytest.raises(InvalidRouteError, match="nowhere"):
        call.run(graph, "update_state", thread, Command(goto="nowhere"), "plan")


def extend(log: list, more: list) -> list:
    log.extend(more)
    return log


class Extended(TypedDict):
    log: Annotated[list, extend]


def test_G3_a_reducer_that_changes_the_old_value_leaves_the_history(call, saver, thread):
    builder = StateGraph(Extended)
    builder.add_node("a", lambda state: {"log": ["a"]}).add_edge(START, "a")
    builder.add_node("b", lambda state: {"log": ["b"]}).add_edge("a", "b")
    graph = builder.compile(checkpointer=saver)

    call.invoke(graph, {"log": ["in"]}, thread)

    logs = [snapshot.values["log"] for snapshot in call.run(graph, "get_state_history", thread)]
    assert logs == [["in", "a", "b"], ["in", "a"], ["in"], []]
