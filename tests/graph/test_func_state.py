"""The state and the history of an entrypoint's thread: those of a graph of one node."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from foldline.checkpoint import Entry
from foldline.exceptions import InvalidUpdateError, SchemaError, UsageError
from foldline.graph import END
from foldline.graph.func import entrypoint, task
from foldline.graph.types import StateUpdate
from foldline.workflows import Command, interrupt
from tests.graph.lines import adder


class Order(BaseModel):
    name: str


def asker(saver, ran=None):
    @task
    def work(text: str) -> str:
        if ran is not None:
            ran.append(text)
        return text + "!"

    @entrypoint(checkpointer=saver)
    def job(text: str) -> str:
        return work(text).result() + str(interrupt("q"))

    return job


def shape(history):
    return [(h.metadata["source"], h.metadata["step"], h.next, h.values) for h in history]


def test_G38_an_entrypoint_has_the_history_of_a_graph_of_one_node(call, saver, thread):
    add = adder(saver)
    assert call.invoke(add, 1, thread) == "got 1"
    history = call.run(add, "get_state_history", thread)
    assert shape(history) == [("loop", 0, (), [1]), ("input", -1, ("add",), None)]
    assert history[0].parent_config == history[1].config
    assert [(item.name, item.result) for item in history[1].tasks] == [("add", "got 1")]

    call.invoke(add, 2, thread)

    assert shape(call.run(add, "get_state_history", thread))[:2] == [
        ("loop", 2, (), [1, 2]),
        ("input", 1, ("add",), [1]),
    ]
    state = call.run(add, "get_state", thread)
    assert (state.values, state.next, state.tasks) == ([1, 2], (), ())
    assert state.metadata == {"source": "loop", "step": 2, "parents": {}}


def test_G38_the_state_of_an_entrypoint_shows_its_open_question(call, saver, thread):
    job = asker(saver)
    (question,) = call.invoke(job, "a", thread)["__interrupt__"]

    state = call.run(job, "get_state", thread)
    assert state.tasks[0].interrupts == state.interrupts == (question,)
    assert (state.next, state.values) == (("job",), None)

    call.invoke(job, Command(resume="x"), thread)
    assert call.run(job, "get_state", thread).interrupts == ()
    recorded = call.run(job, "get_state", state.config)
    assert recorded.tasks[0].interrupts == (question,)
    assert recorded.tasks[0].result == "a!x"


def test_G38_the_state_of_a_failed_entrypoint_shows_its_error(call, saver, thread):
    @entrypoint(checkpointer=saver)
    def fails(number: int) -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        call.invoke(fails, 1, thread)
    state = call.run(fails, "get_state", thread)
    assert state.next == ("fails",)
    assert "ValueError('no')" in state.tasks[0].error


def test_G38_an_empty_thread_has_an_empty_state(call, saver, thread):
    state = call.run(adder(saver), "get_state", thread)
    assert (state.values, state.next, state.metadata) == ({}, (), None)
    assert call.run(adder(saver), "get_state_history", thread) == []


def test_G38_the_history_can_be_filtered_limited_and_cut(call, saver, thread):
    add = adder(saver)
    for number in range(3):
        call.invoke(add, number, thread)

    def history(**options):
        return call.run(add, "get_state_history", thread, **options)

    ends = history(filter={"source": "loop"})
    assert [h.values for h in ends] == [[0, 1, 2], [0, 1], [0]]
    assert len(history(limit=2)) == 2
    assert shape(history(before=ends[1].config)) == shape(history())[3:]
    assert shape(call.run(add, "get_state_history", ends[1].config)) == shape(history())[2:]


def test_G38_update_state_changes_what_the_next_run_reads(call, saver, thread):
    add = adder(saver)
    config = call.run(add, "update_state", thread, [7])
    assert call.run(add, "get_state", thread).config == config
    call.invoke(add, 1, thread)
    assert call.run(add, "get_state", thread).values == [7, 1]

    call.run(add, "update_state", thread, [9], as_node="add")
    call.run(add, "update_state", thread, [10], as_node=END)
    call.invoke(add, 2, thread)

    assert shape(call.run(add, "get_state_history", thread)) == [
        ("loop", 6, (), [10, 2]),
        ("input", 5, ("add",), [10]),
        ("update", 4, (), [10]),
        ("update", 3, (), [9]),
        ("loop", 2, (), [7, 1]),
        ("input", 1, ("add",), [7]),
        ("update", 0, (), [7]),
    ]


def test_G38_no_question_is_open_after_an_update(call, saver, thread):
    job = asker(saver)
    call.invoke(job, "a", thread)
    call.run(job, "update_state", thread, "set")

    state = call.run(job, "get_state", thread)
    assert (state.values, state.next, state.interrupts) == ("set", (), ())
    assert call.invoke(job, None, thread) == "set"


def test_G38_bulk_update_state_writes_a_checkpoint_per_superstep_or_none(call, saver, thread):
    ran = []
    job = asker(saver, ran)
    call.run(
        job, "bulk_update_state", thread, [[StateUpdate("old")], [StateUpdate("a", "__input__")]]
    )
    assert shape(call.run(job, "get_state_history", thread)) == [
        ("input", 1, ("job",), "old"),
        ("update", 0, (), "old"),
    ]
    assert ran == []
    (question,) = call.invoke(job, None, thread)["__interrupt__"]
    assert (question.value, ran) == ("q", ["a"])

    for wrong in ([], [[StateUpdate("x")], []], [[StateUpdate("x"), StateUpdate("y")]]):
        with pytest.raises(InvalidUpdateError):
            call.run(job, "bulk_update_state", thread, wrong)
    with pytest.raises(InvalidUpdateError, match="'job'"):
        call.run(job, "update_state", thread, "x", as_node="other")
    assert len(call.run(job, "get_state_history", thread)) == 2


def test_G38_an_earlier_checkpoint_can_be_continued(call, saver, thread):
    add = adder(saver)
    for number in (1, 2):
        call.invoke(add, number, thread)
    first = call.run(add, "get_state_history", thread)[2]
    assert first.values == [1]

    call.invoke(add, 3, first.config)

    history = call.run(add, "get_state_history", thread)
    assert [h.values for h in history] == [[1, 3], [1], [1, 2], [1], [1], None]
    assert history[1].parent_config == first.config


def test_G38_saved_models_keep_their_type(call, saver, thread):
    @entrypoint(checkpointer=saver)
    def keep(name: str, *, previous: Order | None = None) -> entrypoint.final[str, Order]:
        return entrypoint.final(value=repr(previous), save=Order(name=name))

    call.invoke(keep, "a", thread)
    assert call.run(keep, "get_state", thread).values == Order(name="a")
    assert call.invoke(keep, "b", thread) == "Order(name='a')"


def test_G38_the_state_of_a_damaged_thread_is_a_typed_error(call, saver, thread):
    job = asker(saver)
    saver.append(
        thread["configurable"]["thread_id"],
        "",
        [Entry("x", None, '{"v": 2, "kind": "update"}')],
        after=None,
    )
    with pytest.raises(SchemaError, match="damaged"):
        call.run(job, "get_state", thread)


def test_G38_an_entrypoint_without_a_checkpointer_has_no_state(call, thread):
    with pytest.raises(UsageError, match="add has no checkpointer"):
        call.run(adder(None), "get_state", thread)


def test_G38_checkpoint_events_are_the_checkpoints_of_the_history(call, saver, thread):
    job = asker(saver)
    asked = call.stream(job, "a", thread, stream_mode="checkpoints")
    ended = call.stream(job, Command(resume="x"), thread, stream_mode="checkpoints")
    again = call.stream(job, "b", thread, stream_mode="checkpoints")

    def shapes(events):
        return [
            (event["metadata"]["source"], event["metadata"]["step"], event["next"], event["values"])
            for event in events
        ]

    assert shapes(asked) == [("input", -1, ["job"], None)]
    assert shapes(ended) == [("input", -1, ["job"], None), ("loop", 0, [], "a!x")]
    assert shapes(again) == [("input", 1, ["job"], "a!x")]
    assert [task["name"] for task in asked[0]["tasks"]] == ["job"]
    assert ended[0]["tasks"][0]["interrupts"][0]["value"] == "q"
    history = call.run(job, "get_state_history", thread)
    events = [*again, *reversed(ended)]
    assert [event["config"] for event in events] == [h.config for h in history]
    assert [event["parent_config"] for event in events] == [h.parent_config for h in history]
