"""Flows and entrypoints that a flow calls: places of its journal, with its run's id and its questions."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from foldline.checkpoint import Entry, InMemorySaver, SqliteSaver
from foldline.exceptions import FlowChangedError
from foldline.graph import START, StateGraph
from foldline.graph.func import entrypoint, task
from foldline.workflows import Command, flow_version, idempotency_key, interrupt, step, workflow

ONE = {"configurable": {"thread_id": "1"}}
DATA = Path(__file__).parent / "data" / "form1.json"


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    return InMemorySaver() if request.param == "memory" else SqliteSaver(tmp_path / "flows.db")


class Child:
    """A flow with a step, then a question in another step; `calls` counts what ran."""

    def __init__(self, make: Any, kind: Any, *, is_async: bool = False) -> None:
        self.calls: Counter[str] = Counter()
        self.keys: list[str] = []

        def first(query: str) -> str:
            self.calls["first"] += 1
            self.keys.append(idempotency_key())
            return f"{query} bar"

        def ask(query: str) -> str:
            self.calls["ask"] += 1
            return f"{query} {interrupt('feedback?')}"

        first_step, ask_step = kind(first), kind(ask)
        is_task = kind is task

        @make(name="child")
        def sync_child(query: str) -> str:
            if is_task:
                return ask_step(first_step(query).result()).result()
            return ask_step(first_step(query))

        @make(name="child")
        async def async_child(query: str) -> str:
            if is_task:
                return await ask_step(await first_step(query))
            return await ask_step.acall(await first_step.acall(query))

        self.flow = async_child if is_async else sync_child


KINDS = [(entrypoint, task), (workflow, step)]


@pytest.mark.parametrize("inner", KINDS, ids=["entrypoint", "flow"])
@pytest.mark.parametrize("outer", [entrypoint, workflow])
def test_G39_a_nested_flow_goes_on_at_its_question_and_repeats_no_finished_task(
    call, saver, inner, outer
):
    child = Child(*inner, is_async=call.is_async)

    @outer(checkpointer=saver, name="parent")
    def sync_parent(query: str) -> str:
        return child.flow.invoke(query)

    @outer(checkpointer=saver, name="parent")
    async def async_parent(query: str) -> str:
        return await child.flow.ainvoke(query)

    parent = async_parent if call.is_async else sync_parent
    stopped = call.invoke(parent, "foo", ONE)
    assert [question.value for question in stopped["__interrupt__"]] == ["feedback?"]
    assert call.invoke(parent, Command(resume="baz"), ONE) == "foo bar baz"

    assert child.calls == {"first": 1, "ask": 2}
    places = [record.place for record in parent.thread("1").history() if record.kind == "step"]
    assert places == ["child#0/first#0", "child#0/ask#0", "child#0"]
    run = next(record.id for record in parent.thread("1").history() if record.kind == "flow")
    assert child.keys == [f"1/{run}/child#0/first#0"]


def test_G39_nested_flows_of_three_levels_and_two_calls_have_separate_places(call, saver):
    ran = []

    @task
    def work(number: int) -> int:
        ran.append(number)
        return number + interrupt(number)

    @entrypoint()
    def inner(number: int) -> int:
        return work(number).result()

    @entrypoint()
    def middle(number: int) -> int:
        return inner.invoke(number) + inner.invoke(number + 1)

    @entrypoint(checkpointer=saver)
    def outer(number: int) -> int:
        return middle.invoke(number)

    assert call.invoke(outer, 1, ONE)["__interrupt__"][0].value == 1
    assert call.invoke(outer, Command(resume=10), ONE)["__interrupt__"][0].value == 2
    assert call.invoke(outer, Command(resume=20), ONE) == 33

    assert ran == [1, 1, 2, 2]
    assert [place for place in outer.thread("1").state().steps if "work" in place] == [
        "middle#0/inner#0/work#0",
        "middle#0/inner#1/work#0",
    ]


def test_G39_a_nested_flow_in_a_task_of_an_entrypoint_is_a_place_under_the_task(call, saver):
    child = Child(entrypoint, task)

    @task
    def calls_child(query: str) -> str:
        return child.flow.invoke(query)

    @entrypoint(checkpointer=saver)
    def parent(query: str) -> str:
        return calls_child(query).result()

    call.invoke(parent, "foo", ONE)
    assert call.invoke(parent, Command(resume="baz"), ONE) == "foo bar baz"
    assert child.calls == {"first": 1, "ask": 2}
    assert "calls_child#0/child#0/first#0" in parent.thread("1").state().steps


def test_G39_an_entrypoint_that_a_node_calls_goes_on_at_its_question(call, saver):
    child = Child(entrypoint, task)
    builder = StateGraph(dict)
    builder.add_node("node", lambda state: {"out": child.flow.invoke("foo")})
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)

    call.invoke(graph, {"out": ""}, ONE)
    assert call.invoke(graph, Command(resume="baz"), ONE) == {"out": "foo bar baz"}
    assert child.calls == {"first": 1, "ask": 2}


def test_G39_a_stream_of_a_nested_flow_goes_on_at_its_question(call, saver):
    child = Child(entrypoint, task, is_async=call.is_async)

    @entrypoint(checkpointer=saver, name="parent")
    def sync_parent(query: str) -> list[Any]:
        return list(child.flow.stream(query))

    @entrypoint(checkpointer=saver, name="parent")
    async def async_parent(query: str) -> list[Any]:
        return [chunk async for chunk in child.flow.astream(query)]

    parent = async_parent if call.is_async else sync_parent
    call.invoke(parent, "foo", ONE)

    chunks = call.invoke(parent, Command(resume="baz"), ONE)

    assert chunks[-2:] == [{"ask": "foo bar baz"}, {"child": "foo bar baz"}]
    assert child.calls == {"first": 1, "ask": 2}


def test_G39_updates_of_a_nested_flow_have_its_namespace(call, saver):
    @task
    def work(number: int) -> int:
        return number + 1

    @entrypoint()
    def child(number: int) -> int:
        return work(number).result()

    @entrypoint(checkpointer=saver)
    def parent(number: int) -> int:
        return child.invoke(number)

    assert call.stream(parent, 1, ONE) == [{"parent": 2}]
    events = call.stream(parent, 1, ONE, stream_mode="events")
    updates = [
        (event["params"]["namespace"], event["params"]["data"]["values"])
        for event in events
        if event["method"] == "updates"
    ]
    assert updates == [(["parent", "child"], 2), (["parent", "child"], 2), ([], 2)]


def test_G39_a_run_stores_the_tasks_that_it_has_started_before_it_ends_with_a_question(call, saver):
    ran = []

    @task
    def sync_slow(text: str) -> str:
        time.sleep(0.3)
        ran.append(text)
        return text

    @task
    async def async_slow(text: str) -> str:
        await asyncio.sleep(0.3)
        ran.append(text)
        return text

    @entrypoint(checkpointer=saver, name="flow")
    def sync_flow(text: str) -> str:
        future = sync_slow(text)
        answer = interrupt("q")
        return future.result() + answer

    @entrypoint(checkpointer=saver, name="flow")
    async def async_flow(text: str) -> str:
        future = async_slow(text)
        answer = interrupt("q")
        return await future + answer

    flow = async_flow if call.is_async else sync_flow
    call.invoke(flow, "a", ONE)
    assert [record.kind for record in flow.thread("1").history()] == ["flow", "step", "stop"]

    assert call.invoke(flow, Command(resume="!"), ONE) == "a!"
    assert ran == ["a"]


def test_G39_questions_of_tasks_that_run_at_once_are_asked_together(call, saver):
    calls: Counter[str] = Counter()

    def body(name: str) -> Any:
        calls[name] += 1
        answer = interrupt(name)
        return None if name == "A" else answer

    @task
    def sync_ask(name: str) -> Any:
        return body(name)

    @task
    async def async_ask(name: str) -> Any:
        return body(name)

    @entrypoint(checkpointer=saver, name="flow")
    def sync_flow(_: int) -> list[Any]:
        first, second = sync_ask("A"), sync_ask("B")
        return [first.result(), second.result()]

    @entrypoint(checkpointer=saver, name="flow")
    async def async_flow(_: int) -> list[Any]:
        first, second = async_ask("A"), async_ask("B")
        return [await first, await second]

    flow = async_flow if call.is_async else sync_flow
    first, second = call.invoke(flow, 1, ONE)["__interrupt__"]
    assert (first.value, second.value) == ("A", "B")

    left = call.invoke(flow, Command(resume={first.id: "x"}), ONE)["__interrupt__"]
    assert [question.id for question in left] == [second.id]
    assert call.invoke(flow, Command(resume={second.id: "y"}), ONE) == [None, "y"]
    assert calls == {"A": 2, "B": 3}  # a finished task, with None too, is not repeated


def test_G39_a_task_that_nobody_waits_for_is_stored_before_the_end_or_the_failure(call, saver):
    @task
    def slow(text: str) -> str:
        time.sleep(0.1)
        return text

    @entrypoint(checkpointer=saver)
    def flow(fails: bool) -> str:
        slow("x")
        if fails:
            raise ValueError("no")
        return "done"

    assert call.invoke(flow, False, ONE) == "done"
    assert flow.thread("1").state().steps == {"slow#0": "x"}
    two = {"configurable": {"thread_id": "2"}}
    with pytest.raises(ValueError, match="no"):
        call.invoke(flow, True, two)
    assert flow.thread("2").state().steps == {"slow#0": "x"}


def test_G39_a_nested_flow_has_its_own_version(saver):
    seen = []

    def make(version: str | None, accepts: tuple[str, ...] = ()) -> Any:
        @workflow(version=version, accepts=accepts, name="child")
        def child(text: str) -> str:
            seen.append(flow_version())
            return text + str(interrupt("?"))

        @workflow(checkpointer=saver, name="parent", version="p")
        def parent(text: str) -> str:
            seen.append(flow_version())
            return child.invoke(text)

        return parent

    make("1").invoke("a", ONE)
    with pytest.raises(FlowChangedError, match="version '1'"):
        make("2").invoke(Command(resume="!"), ONE)
    assert make("2", accepts=("1",)).invoke(None, ONE) == "a!"
    assert seen == ["p", "1", "p", "p", "1"]


def stored(saver: Any, name: str) -> Any:
    threads = json.loads(DATA.read_text(encoding="utf-8"))
    for namespace, entries in threads[name].items():
        saver.append(
            name,
            namespace,
            [Entry(item["id"], item["parent"], json.dumps(item["body"])) for item in entries],
            after=None,
        )
    return {"configurable": {"thread_id": name}}


def test_a_nested_flow_that_an_earlier_release_stored_goes_on(call, saver):
    ran = []

    @step
    def prepare(order: str) -> str:
        ran.append(order)
        return f"{order} ready"

    @workflow
    def child(order: str) -> str:
        return f"{prepare(order)} {interrupt('ship?')}"

    @workflow(checkpointer=saver)
    def parent(order: str) -> str:
        return child.invoke(order)

    thread = stored(saver, "nested")

    assert call.invoke(parent, Command(resume="yes"), thread) == "book ready yes"
    assert ran == []


def test_an_entrypoint_that_an_earlier_release_stored_goes_on(call, saver):
    ran = []

    @task
    def work(order: str) -> str:
        ran.append(order)
        return f"{order} done"

    @entrypoint(checkpointer=saver)
    def job(order: str) -> str:
        return f"{work(order).result()} {interrupt('go on?')}"

    @entrypoint(checkpointer=saver)
    def counter(number: int, *, previous: Any = None) -> Any:
        return entrypoint.final(value=number, save=(previous or 0) + number)

    assert call.invoke(job, Command(resume="yes"), stored(saver, "asking")) == "book done yes"
    assert ran == []
    finished = stored(saver, "finished")
    assert call.invoke(counter, 2, finished) == 2
    history = saver.read("finished", "")
    assert json.loads(history[-1].body)["saved"] == 7
