"""`entrypoint` and `task`: streams, traces and schemas of an entrypoint, tasks anywhere, and what is cancelled."""

from __future__ import annotations

import asyncio
import functools
import itertools
import operator
import threading
import time
from contextlib import suppress
from typing import Annotated, Any
from uuid import uuid4

import pytest
from typing_extensions import TypedDict

from foldline.agents import create_agent
from foldline.checkpoint import Entry, SqliteSaver
from foldline.exceptions import UsageError
from foldline.graph import START, StateGraph
from foldline.graph.cache import InMemoryCache
from foldline.graph.func import entrypoint, task
from foldline.graph.types import CachePolicy
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.tracers.context import collect_runs
from foldline.workflows import Command, interrupt
from tests.graph.lines import adder


def new_thread() -> dict[str, Any]:
    return {"configurable": {"thread_id": uuid4().hex}}


# -- streams, schemas


def test_G38_a_stream_has_the_results_of_tasks_then_that_of_the_entrypoint(call, saver, thread):
    @task
    def double(number: int) -> int:
        return number * 2

    @entrypoint(checkpointer=saver)
    def sums(numbers: list[int]) -> int:
        return sum(double(number).result() for number in numbers)

    assert call.stream(sums, [1, 2], thread) == [{"double": 2}, {"double": 4}, {"sums": 6}]
    assert call.stream(sums, [1, 2], thread, stream_mode="values") == [6]


def tracked(saver):
    @task
    async def double(number: int) -> int:
        return number * 2

    @task
    async def fails(number: int) -> int:
        raise ValueError("no")

    @entrypoint(checkpointer=saver)
    async def job(number: int) -> int:
        with suppress(ValueError):
            await fails(number)
        return await double(number)

    return job


def test_G38_events_are_those_of_the_graph_the_entrypoint_and_the_tasks(saver, thread):
    job = tracked(saver)

    async def collect() -> list[Any]:
        await job.ainvoke(1, thread)
        return [event async for event in job.astream_events(1, thread, version="v2")]

    events = asyncio.run(collect())

    names = [(event["event"], event["name"]) for event in events]
    piece = ("on_chain_stream", "LangGraph")  # the reader gets it a little later
    assert [event["data"] for event in events if (event["event"], event["name"]) == piece] == [
        {"chunk": {"double": 2}},
        {"chunk": {"job": 2}},
    ]
    assert [name for name in names if name != piece] == [
        ("on_chain_start", "LangGraph"),
        ("on_chain_start", "job"),
        ("on_chain_start", "fails"),
        ("on_chain_start", "double"),
        ("on_chain_stream", "double"),
        ("on_chain_end", "double"),
        ("on_chain_stream", "job"),
        ("on_chain_end", "job"),
        ("on_chain_end", "LangGraph"),
    ]
    ends = {event["name"]: event for event in events if event["event"] == "on_chain_end"}
    assert ends["double"]["data"] == {"output": 2, "input": {"number": 1}}
    assert ends["job"]["data"] == {"output": 2, "input": 1}
    assert ends["LangGraph"]["data"]["output"] == 2
    assert ends["job"]["tags"] == ["graph:step:2"]
    assert [len(ends[name]["parent_ids"]) for name in ("LangGraph", "job", "double")] == [0, 1, 2]


@pytest.mark.parametrize("has_update", [False, True])
def test_G38_a_traced_entrypoint_is_one_run_with_its_node(call, saver, thread, has_update):
    add = adder(saver)
    if has_update:
        call.run(add, "update_state", thread, [5])
    with collect_runs() as collected:
        call.invoke(add, 1, thread)
        call.stream(add, 2, thread)

    assert [run.name for run in collected.traced_runs] == ["LangGraph", "LangGraph"]
    nodes = [run.child_runs[0] for run in collected.traced_runs]
    assert [(node.name, node.inputs, node.outputs) for node in nodes] == [
        ("add", {"input": 1}, {"output": "got 1"}),
        ("add", {"input": 2}, {"output": "got 2"}),
    ]
    steps = [h.metadata["step"] for h in call.run(add, "get_state_history", thread)][:3:2]
    tags = [tag for node in nodes for tag in node.tags]
    assert tags == [f"graph:step:{step}" for step in reversed(steps)]


def test_G38_a_stream_with_subgraphs_has_namespaces(call, saver, thread):
    @entrypoint()
    def child(number: int) -> int:
        return number + 1

    @entrypoint(checkpointer=saver)
    def parent(number: int) -> int:
        return child.invoke(number)

    pieces = call.stream(parent, 1, thread, subgraphs=True)
    assert pieces == [(("parent", "child"), {"child": 2}), ((), {"parent": 2})]


def test_G38_schemas_have_the_titles_of_graphs():
    class Context(TypedDict):
        model: str

    @entrypoint(context_schema=Context)
    def lengths(words: list[str]) -> list[int]:
        return [len(word) for word in words]

    assert lengths.get_input_jsonschema() == {
        "title": "LangGraphInput",
        "type": "array",
        "items": {"type": "string"},
    }
    assert lengths.get_output_jsonschema() == {
        "title": "LangGraphOutput",
        "type": "array",
        "items": {"type": "integer"},
    }
    assert lengths.get_context_jsonschema()["required"] == ["model"]
    assert adder(None).get_output_jsonschema() == {"title": "LangGraphOutput", "type": "string"}
    assert adder(None).get_context_jsonschema() is None


def test_G38_final_takes_two_types():
    @entrypoint()
    def plain(number: int) -> entrypoint.final:
        return entrypoint.final(value=number, save=None)

    assert plain.get_output_jsonschema() == {"title": "LangGraphOutput"}
    assert plain.invoke(3) == 3
    with pytest.raises(TypeError):
        entrypoint.final[int]


def test_G38_a_generator_is_not_an_entrypoint():
    def sync_numbers(count: int) -> Any:
        yield from range(count)

    async def async_numbers(count: int) -> Any:
        yield count

    for function in (sync_numbers, async_numbers):
        with pytest.raises(NotImplementedError, match="generator"):
            entrypoint()(function)


# -- tasks


class UnevenSaver(SqliteSaver):
    """Its reads take longer for some than for others."""

    is_instant = False
    seconds = itertools.cycle([0.05, 0.0, 0.02])

    def read(self, *args: Any, **options: Any) -> list[Entry]:
        entries = super().read(*args, **options)
        time.sleep(next(self.seconds))
        return entries


def test_G40_tasks_that_begin_together_in_a_node_read_its_journal_once(call, tmp_path, thread):
    @task
    def double(number: int) -> int:
        return number * 2

    @task
    async def async_double(number: int) -> int:
        return number * 2

    class State(TypedDict, total=False):
        out: list[int]

    def sync_node(state: State) -> State:
        futures = [double(number) for number in range(8)]
        return {"out": [future.result() for future in futures]}

    async def async_node(state: State) -> State:
        return {"out": list(await asyncio.gather(*(async_double(number) for number in range(8))))}

    builder = StateGraph(State)
    builder.add_node("node", async_node if call.is_async else sync_node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=UnevenSaver(tmp_path / "threads.db"))

    assert call.invoke(graph, {}, thread) == {"out": [number * 2 for number in range(8)]}


@pytest.mark.parametrize("has_saver", [True, False])
def test_G40_a_task_can_be_called_in_any_node(call, saver, has_saver, thread):
    ran = []

    @task
    def sync_double(number: int) -> int:
        ran.append(number)
        return number * 2

    @task
    async def async_double(number: int) -> int:
        ran.append(number)
        return number * 2

    class State(TypedDict, total=False):
        out: list[int]

    def sync_node(state: State) -> State:
        futures = [sync_double(number) for number in (1, 0)]
        return {"out": [future.result() for future in futures]}

    async def async_node(state: State) -> State:
        return {"out": list(await asyncio.gather(async_double(1), async_double(0)))}

    builder = StateGraph(State)
    builder.add_node("node", async_node if call.is_async else sync_node)
    builder.add_edge(START, "node")
    inner = builder.compile()
    outer = StateGraph(State).add_node("inner", inner).add_edge(START, "inner")
    graph = outer.compile(checkpointer=saver if has_saver else None)

    assert call.invoke(graph, {}, thread if has_saver else None) == {"out": [2, 0]}
    assert sorted(ran) == [0, 1]


def test_G40_a_task_in_a_node_is_not_repeated_when_the_node_asks(call, saver, thread):
    ran = []

    @task
    def slow(number: int) -> int:
        time.sleep(0.2)
        ran.append(number)
        return number

    def node(state: dict[str, Any]) -> dict[str, Any]:
        future = slow(1)
        answer = interrupt("q")
        return {"out": future.result() + answer}

    builder = StateGraph(dict)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)

    call.invoke(graph, {"out": 0}, thread)
    assert call.invoke(graph, Command(resume=1), thread) == {"out": 2}
    assert ran == [1]


def test_G40_a_sync_node_in_a_running_loop_waits_for_its_tasks():
    @task
    def double(number: int) -> int:
        return number * 2

    builder = StateGraph(dict)
    builder.add_node("node", lambda state: {"out": double(2).result()})
    builder.add_edge(START, "node")
    graph = builder.compile()

    async def body() -> Any:
        return graph.invoke({"out": 0})

    assert asyncio.run(body()) == {"out": 4}


def test_G40_a_task_outside_of_a_run_is_an_error():
    @task
    def double(number: int) -> int:
        return number * 2

    with pytest.raises(UsageError, match="double"):
        double(1)


def test_G40_clear_cache_lets_a_task_run_again(call, saver):
    ran = []

    @task(cache_policy=CachePolicy())
    def double(number: int) -> int:
        ran.append(number)
        return number * 2

    @task(cache_policy=CachePolicy())
    def half(number: int) -> float:
        ran.append(-number)
        return number / 2

    cache = InMemoryCache()

    @entrypoint(checkpointer=saver, cache=cache)
    def both(number: int) -> float:
        return double(number).result() + half(number).result()

    for _ in range(2):
        assert call.invoke(both, 4, new_thread()) == 10
    assert ran == [4, -4]

    call.run(double, "clear_cache", cache)
    assert call.invoke(both, 4, new_thread()) == 10
    assert ran == [4, -4, 4]


def test_a_task_of_a_partial_has_the_name_of_its_function(call):
    def add(first: int, second: int) -> int:
        return first + second

    one_more = task(functools.partial(add, 1))

    @entrypoint()
    def flow(number: int) -> int:
        return one_more(number).result()

    assert call.stream(flow, 1) == [{"add": 2}, {"flow": 2}]


def test_G40_a_task_in_a_tool_of_an_agent_is_not_repeated_when_the_tool_asks(call, saver, thread):
    ran = []

    @task
    def slow(number: int) -> int:
        time.sleep(0.2)
        ran.append(number)
        return number

    @tool
    def ask(number: int) -> str:
        """Ask."""
        future = slow(number)
        answer = interrupt("q")
        return f"{future.result()} {answer}"

    def turn(request: Any) -> Any:
        last = request.messages[-1]
        return last.text if last.type == "tool" else [Call("ask", {"number": 1}, id="c")]

    agent = create_agent(ScriptedChatModel(script=turn), [ask], checkpointer=saver)
    call.invoke(agent, "go", thread)
    result = call.invoke(agent, Command(resume="yes"), thread)
    assert result["messages"][-1].text == "1 yes"
    assert ran == [1]


# -- cancelling


class Slow:
    """A quick and a slow part that run at once; `log` is what ended."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def async_part(self, name: str) -> str:
        try:
            await asyncio.sleep(0 if name == "quick" else 30)
        except asyncio.CancelledError:
            self.log.append(f"{name} cancelled")
            raise
        self.log.append(name)
        return name

    def sync_part(self, name: str) -> str:
        time.sleep(0 if name == "quick" else 1)
        self.log.append(name)
        return name


class Names(TypedDict, total=False):
    names: Annotated[list[str], operator.add]


def fan_graph(saver, slow, *, is_async):
    async def async_quick(state: Names) -> Names:
        return {"names": [await slow.async_part("quick")]}

    async def async_slow(state: Names) -> Names:
        return {"names": [await slow.async_part("slow")]}

    def sync_quick(state: Names) -> Names:
        return {"names": [slow.sync_part("quick")]}

    def sync_slow(state: Names) -> Names:
        return {"names": [slow.sync_part("slow")]}

    builder = StateGraph(Names)
    builder.add_node("quick", async_quick if is_async else sync_quick)
    builder.add_node("slow", async_slow if is_async else sync_slow)
    builder.add_node("after", sync_quick)
    builder.add_edge(START, "quick")
    builder.add_edge(START, "slow")
    builder.add_edge("slow", "after")
    return builder.compile(checkpointer=saver)


def take_one(call, runnable, value, thread):
    """Return the first piece of a stream, and close it."""
    if not call.is_async:
        pieces = runnable.stream(value, thread)
        piece = next(pieces)
        pieces.close()
        return piece

    async def body() -> Any:
        pieces = runnable.astream(value, thread)
        piece = await anext(pieces)
        await pieces.aclose()
        return piece

    return asyncio.run(body())


def test_G37_closing_a_stream_of_a_graph_cancels_running_nodes_and_keeps_finished_ones(
    call, saver, thread
):
    slow = Slow()
    graph = fan_graph(saver, slow, is_async=call.is_async)

    assert take_one(call, graph, {}, thread) == {"quick": {"names": ["quick"]}}

    state = call.run(graph, "get_state", thread)
    if call.is_async:
        assert (state.values, state.next) == ({"names": ["quick"]}, ("slow",))
        assert slow.log == ["quick", "slow cancelled"]
    else:  # a thread cannot be stopped: it ends and is stored, and no further node begins
        assert (state.values, state.next) == ({"names": ["quick", "slow"]}, ("after",))
        assert slow.log == ["quick", "slow"]


def test_G37_closing_a_stream_of_an_entrypoint_cancels_running_tasks_and_keeps_finished_ones(
    call, saver, thread
):
    slow = Slow()
    sync_part, async_part = task(slow.sync_part), task(slow.async_part)

    @entrypoint(checkpointer=saver, name="flow")
    def sync_flow(_: int) -> list[str]:
        futures = [sync_part(name) for name in ("quick", "slow")]
        return [*[future.result() for future in futures], sync_part("after").result()]

    @entrypoint(checkpointer=saver, name="flow")
    async def async_flow(_: int) -> list[str]:
        return list(await asyncio.gather(*map(async_part, ("quick", "slow"))))

    flow = async_flow if call.is_async else sync_flow
    assert list(take_one(call, flow, 1, thread).values()) == ["quick"]

    steps = flow.thread(thread["configurable"]["thread_id"]).state().steps
    assert call.run(flow, "get_state", thread).next == ("flow",)
    if call.is_async:
        assert list(steps.values()) == ["quick"]
        assert slow.log == ["quick", "slow cancelled"]
    else:  # a thread cannot be stopped: it ends and is stored, and no further task begins
        assert sorted(steps.values()) == slow.log == ["quick", "slow"]


def test_G37_a_cancelled_task_runs_again_when_the_run_goes_on(saver, thread):
    calls = []

    @task
    async def work(number: int) -> int:
        calls.append(number)
        await asyncio.sleep(0.1)
        return number

    @entrypoint(checkpointer=saver)
    async def flow(_: int) -> list[Any]:
        futures = [work(1), work(2)]
        await asyncio.sleep(0.02)
        assert futures.pop().cancel()
        results = list(await asyncio.gather(*futures))
        assert futures[0].cancel() is False  # it is finished
        return [*results, interrupt("q")]

    async def body() -> Any:
        await flow.ainvoke(1, thread)
        steps = (await flow.thread(thread["configurable"]["thread_id"]).astate()).steps
        assert steps == {"work#0": 1}
        return await flow.ainvoke(Command(resume="x"), thread)

    assert asyncio.run(body()) == [1, "x"]
    assert calls == [1, 2, 2]


def test_G37_a_task_in_a_thread_cannot_be_cancelled_and_is_stored(saver, thread):
    started = threading.Event()

    @task
    def work(number: int) -> int:
        started.set()
        time.sleep(0.1)
        return number

    @entrypoint(checkpointer=saver)
    def flow(_: int) -> Any:
        future = work(1)
        started.wait()
        assert future.cancel() is False
        return interrupt("q")

    flow.invoke(1, thread)
    assert flow.thread(thread["configurable"]["thread_id"]).state().steps == {"work#0": 1}


def test_G37_a_failing_node_lets_the_others_finish_and_stores_them(call, saver, thread):
    def fails(state: Names) -> Names:
        raise ValueError("no")

    def other(state: Names) -> Names:
        time.sleep(0.1)
        return {"names": ["other"]}

    builder = StateGraph(Names)
    builder.add_node("fails", fails)
    builder.add_node("other", other)
    builder.add_edge(START, "fails")
    builder.add_edge(START, "other")
    graph = builder.compile(checkpointer=saver)

    with pytest.raises(ValueError, match="no"):
        call.invoke(graph, {}, thread)
    state = call.run(graph, "get_state", thread)
    assert (state.values, state.next) == ({"names": ["other"]}, ("fails",))
