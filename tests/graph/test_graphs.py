"""Graphs on threads: streams, graphs inside graphs, steps inside nodes, caches, durability, many "
"threads in one file."""

from __future__ import annotations

import asyncio
import operator
import os
import time
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from foldline.agents import create_agent
from foldline.exceptions import StepTimeoutError
from foldline.graph import (
    START,
    CachePolicy,
    Command,
    InMemoryCache,
    InMemorySaver,
    InMemoryStore,
    MessagesState,
    Send,
    SqliteCache,
    SqliteSaver,
    StateGraph,
    ThreadBusyError,
    UntrackedValue,
    create_react_agent,
    entrypoint,
    get_config,
    get_runtime,
    get_store,
    interrupt,
    task,
)
from foldline.messages import HumanMessage
from foldline.testing import Call as ToolCall, ScriptedChatModel
from foldline.tools import tool
from foldline.workflows import step, workflow

pytestmark = pytest.mark.timing

ONE = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    items: Annotated[list[Any], operator.add]
    n: int


def of(*nodes, schema=State, **options):
    graph = StateGraph(schema)
    graph.add_sequence(list(nodes))
    graph.add_edge(START, nodes[0][0] if isinstance(nodes[0], tuple) else nodes[0].__name__)
    return graph.compile(**options)


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    return InMemorySaver() if request.param == "memory" else SqliteSaver(tmp_path / "graph.db")


def test_a_finished_step_inside_a_node_is_not_repeated_after_a_question(call, saver):
    charges = []

    @step
    def charge(n: int) -> int:
        charges.append(n)
        return n

    def pay(state: State):
        return {"items": [charge(state["n"]), interrupt("sure?")]}

    graph = of(pay, checkpointer=saver)
    call.invoke(graph, {"n": 3}, ONE)

    assert call.invoke(graph, Command(resume="yes"), ONE)["items"] == [3, "yes"]
    assert charges == [3]


def test_a_fork_runs_the_steps_of_its_nodes_anew(call, saver):
    charges = []

    @step
    def charge(n: int) -> int:
        charges.append(n)
        return len(charges)

    graph = of(("pay", lambda state: {"items": [charge(state["n"])]}), checkpointer=saver)
    call.invoke(graph, {"n": 3}, ONE)
    before = next(
        snapshot
        for snapshot in call.run(graph, "get_state_history", ONE)
        if snapshot.next == ("pay",)
    )

    assert call.invoke(graph, None, before.config)["items"] == [2]


def test_a_checkpoint_named_by_get_state_can_be_resumed(call, saver):
    graph = of(("ask", lambda state: {"items": [interrupt("?")]}), checkpointer=saver)
    call.invoke(graph, {"n": 3}, ONE)
    config = call.run(graph, "get_state", ONE).config

    assert call.invoke(graph, Command(resume="yes"), config)["items"] == ["yes"]


def test_tokens_of_models_inside_nodes_are_streamed(call):
    model = ScriptedChatModel(script=["Hello there."])

    def answer(state):
        return {"messages": [model.invoke(state["messages"])]}

    async def aanswer(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    node = aanswer if call.is_async else answer
    graph = of(("answer", node), schema=MessagesState)
    pieces = call.stream(graph, {"messages": [("user", "hi")]}, stream_mode="messages")

    assert "".join(chunk.content for chunk, _ in pieces) == "Hello there."
    assert len(pieces) > 1
    assert {metadata["langgraph_node"] for _, metadata in pieces} == {"answer"}


def test_messages_that_no_model_streamed_are_sent_whole(call):
    graph = of(("say", lambda state: {"messages": [("ai", "fixed")]}), schema=MessagesState)

    pieces = call.stream(graph, {"messages": [("user", "hi")]}, stream_mode="messages")

    assert [(message.content, metadata["langgraph_node"]) for message, metadata in pieces] == [
        ("fixed", "say")
    ]


def test_tokens_of_an_agent_inside_a_node_are_streamed_once(call):
    agent = create_agent(ScriptedChatModel(script=["Hello there."]))
    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_edge(START, "agent")

    pieces = call.stream(graph.compile(), {"messages": [("user", "hi")]}, stream_mode="messages")

    texts = [chunk.content for chunk, _ in pieces if chunk.type != "human"]
    assert "".join(text for text in texts if isinstance(text, str)) == "Hello there."


def test_a_question_inside_an_inner_graph_stops_and_resumes_the_outer_one(call, saver):
    calls = []

    def first(state: State):
        calls.append("first")
        return {"items": ["first"]}

    def ask(state: State):
        return {"items": [interrupt("inside?")]}

    inner = of(first, ask)
    graph = StateGraph(State)
    graph.add_node("sub", inner)
    graph.add_edge(START, "sub")
    outer = graph.compile(checkpointer=saver)
    call.invoke(outer, {"n": 1}, ONE)

    state = call.run(outer, "get_state", ONE, subgraphs=True)
    result = call.invoke(outer, Command(resume="yes"), ONE)

    assert state.tasks[0].state.values["items"] == ["first"]
    assert state.tasks[0].state.next == ("ask",)
    assert result["items"] == ["first", "yes"]
    assert calls == ["first"]


def test_the_state_of_an_inner_graph_can_be_changed(call, saver):
    inner = of(("ask", lambda state: {"items": [interrupt("?"), state["n"]]}))
    graph = StateGraph(State)
    graph.add_node("sub", inner)
    graph.add_edge(START, "sub")
    outer = graph.compile(checkpointer=saver)
    call.invoke(outer, {"n": 1}, ONE)
    inside = call.run(outer, "get_state", ONE).tasks[0].state

    call.run(outer, "update_state", inside, {"n": 42})

    assert call.invoke(outer, Command(resume="yes"), ONE)["items"] == ["yes", 42]


def test_G9_a_step_asks_again_after_its_state_was_changed(call, saver):
    charges = []

    @step
    def charge(n: int) -> int:
        charges.append(n)
        return n

    def ask(state: State):
        return {"items": [charge(7), charge(state["n"]), interrupt("?")]}

    graph = of(("first", lambda state: None), ask, checkpointer=saver)
    (first,) = call.invoke(graph, {"n": 1}, ONE)["__interrupt__"]
    call.run(graph, "update_state", ONE, {"n": 2})

    assert call.run(graph, "get_state", ONE).interrupts == ()
    (question,) = call.invoke(graph, None, ONE)["__interrupt__"]
    assert question.id != first.id
    assert call.invoke(graph, Command(resume="yes"), ONE)["items"] == [7, 2, "yes"]
    assert charges == [7, 1, 7, 2]


def test_an_inner_graph_with_a_memory_of_its_own_remembers(call, saver):
    inner = of(("count", lambda state: {"items": ["x"]}), checkpointer=True)
    counts = []

    def sub(state: State):
        counts.append(len(inner.invoke({"n": 1})["items"]))

    async def asub(state: State):
        counts.append(len((await inner.ainvoke({"n": 1}))["items"]))

    outer = of(("sub", asub if call.is_async else sub), checkpointer=saver)
    for _ in range(3):
        call.invoke(outer, {"n": 1}, ONE)

    assert counts == [1, 2, 3]


@pytest.mark.slow
def test_a_fan_out_of_a_thousand_is_joined_in_order(call, saver):
    graph = StateGraph(State)
    graph.add_node("double", lambda state: {"items": [state["n"] * 2]})
    graph.add_conditional_edges(
        START, lambda state: [Send("double", {"n": n}) for n in range(state["n"])], ["double"]
    )
    compiled = graph.compile(checkpointer=saver)

    result = call.invoke(compiled, {"n": 1000}, {**ONE, "max_concurrency": 8})

    assert result["items"] == [n * 2 for n in range(1000)]
    assert call.run(compiled, "get_state", ONE).values["items"] == result["items"]


class Section(BaseModel):
    title: str


def test_models_survive_in_the_state_and_in_sends(call, tmp_path):
    class Report(TypedDict, total=False):
        sections: list[Section]
        section: Section
        texts: Annotated[list[str], operator.add]

    def plan(state: Report):
        return {"sections": [Section(title="a"), Section(title="b")]}

    def write(state: Report):
        return {"texts": [state["section"].title + interrupt("ok?")]}

    def spread(state):
        return [Send("write", {"section": section}) for section in state["sections"]]

    graph = StateGraph(Report)
    graph.add_node("plan", plan)
    graph.add_node("write", write)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", spread, ["write"])
    path = tmp_path / "g.db"
    interrupted_state = call.invoke(
        graph.compile(checkpointer=SqliteSaver(path)), {"texts": []}, ONE
    )
    answers = {question.id: "!" for question in interrupted_state["__interrupt__"]}
    result = call.invoke(
        graph.compile(checkpointer=SqliteSaver(path)), Command(resume=answers), ONE
    )

    assert result["texts"] == ["a!", "b!"]
    assert result["sections"] == [Section(title="a"), Section(title="b")]


@pytest.mark.parametrize(
    "make", [lambda path: InMemoryCache(), lambda path: SqliteCache(path / "cache.db")]
)
def test_a_cached_node_runs_once_per_input(call, tmp_path, make):
    calls = []

    def slow(state: State):
        calls.append(state["n"])
        return {"items": [state["n"]]}

    graph = StateGraph(State)
    graph.add_node("slow", slow, cache_policy=CachePolicy(ttl=60))
    graph.add_edge(START, "slow")
    compiled = graph.compile(cache=make(tmp_path))

    results = [call.invoke(compiled, {"n": n})["items"] for n in (1, 1, 2)]

    assert results == [[1], [1], [2]]
    assert calls == [1, 2]


def test_durability_exit_writes_once_at_the_end(call):
    class Counting(InMemorySaver):
        appends = 0

        def append(self, *args, **kwargs):
            type(self).appends += 1
            super().append(*args, **kwargs)

    saver = Counting()
    nodes = [(f"n{number}", lambda state: {"items": [1]}) for number in range(5)]
    graph = of(*nodes, checkpointer=saver)

    call.invoke(graph, {"n": 1}, ONE, durability="exit")

    assert Counting.appends == 1
    assert len(call.run(graph, "get_state", ONE).values["items"]) == 5
    Counting.appends = 0


def test_a_hanging_node_ends_by_its_timeout(call):
    graph = StateGraph(State)
    graph.add_node("hang", lambda state: time.sleep(0.4), timeout=0.05)
    graph.add_edge(START, "hang")

    with pytest.raises(StepTimeoutError, match="the node 'hang' took longer than its timeout"):
        call.invoke(graph.compile(), {"n": 1})


def test_two_runs_of_one_thread_do_not_both_write(saver):
    graph = of(("meet", lambda state: interrupt("?")), checkpointer=saver)
    graph.invoke({"n": 1}, ONE)

    def other(state: State):
        graph.update_state(ONE, {"n": 5}, as_node="meet")  # another caller continues meanwhile
        return {"n": 2}

    same = of(("meet", other), checkpointer=saver)

    with pytest.raises(ThreadBusyError, match="belongs to run"):
        same.invoke(Command(resume=1), ONE)


def test_a_stream_that_is_left_early_runs_no_further_node(saver):
    numbers = []
    nodes = [
        (f"n{number}", lambda state, number=number: numbers.append(number)) for number in range(5)
    ]
    graph = of(*nodes, checkpointer=saver)

    for _ in graph.stream({"n": 1}, ONE):
        break

    assert numbers == [0]
    assert graph.get_state(ONE).next == ("n1",)


def test_cancelling_at_any_moment_loses_no_finished_node(no_leaks, tmp_path):
    saver = SqliteSaver(tmp_path / "graph.db")

    async def node(state: State):
        await asyncio.sleep(0)
        return {"items": ["x"]}

    graph = of(*[(f"n{number}", node) for number in range(5)], checkpointer=saver)

    async def body():
        for moment in range(0, 40, 3):
            config = {"configurable": {"thread_id": f"t{moment}"}}
            task = asyncio.ensure_future(graph.ainvoke({"items": []}, config))
            for _ in range(moment):
                await asyncio.sleep(0.0005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            state = await graph.aget_state(config)
            if state.next:
                assert (await graph.ainvoke(None, config))["items"] == ["x"] * 5
            elif state.created_at is not None:
                assert state.values["items"] == ["x"] * 5

    asyncio.run(body())
    saver.close()


def test_storage_grows_by_what_was_said_and_no_more(tmp_path):
    path = tmp_path / "graph.db"
    saver = SqliteSaver(path)
    graph = of(
        ("answer", lambda state: {"messages": [("ai", "b" * 1000)]}),
        schema=MessagesState,
        checkpointer=saver,
    )
    sizes = []
    for turn in range(60):
        graph.invoke({"messages": [HumanMessage("a" * 1000)]}, ONE)
        if turn in (19, 59):
            saver._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
            sizes.append(os.path.getsize(path))
    saver.close()

    assert (sizes[1] - sizes[0]) / 40 <= 6 * 1024


def test_a_react_agent_calls_its_tools(call, saver):
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = ScriptedChatModel(script=[[ToolCall("add", {"a": 1, "b": 2})], "It is 3."])
    agent = create_react_agent(model, [add], prompt="Be brief.", checkpointer=saver)

    updates = call.stream(agent, {"messages": [("user", "1 + 2?")]}, ONE)

    assert [next(iter(update)) for update in updates] == ["agent", "tools", "agent"]
    assert call.run(agent, "get_state", ONE).values["messages"][-1].text == "It is 3."


def test_a_react_agent_stops_before_its_tools(call, saver):
    @tool
    def danger() -> str:
        """Be careful."""
        return "done"

    model = ScriptedChatModel(script=[[ToolCall("danger", {})], "ok"])
    agent = create_react_agent(model, [danger], checkpointer=saver, interrupt_before=["tools"])
    call.invoke(agent, {"messages": [("user", "go")]}, ONE)

    assert call.run(agent, "get_state", ONE).next == ("tools",)
    assert call.invoke(agent, None, ONE)["messages"][-1].text == "ok"


def test_a_graph_inside_has_the_store_and_the_context_around_it(call):
    observations = []
    inner = of(
        ("look", lambda state: observations.append((get_store() is store, get_runtime().context)))
    )
    graph = StateGraph(State)
    graph.add_node("sub", inner)
    graph.add_edge(START, "sub")
    store = InMemoryStore()

    call.invoke(graph.compile(store=store), {"n": 1}, context="ann")

    assert observations == [(True, "ann")]


def test_a_flow_that_a_node_invoked_is_not_run_again_after_a_question(saver):
    calls = []

    @workflow
    def flow(n: int) -> int:
        calls.append(n)
        return n * 2

    graph = of(
        ("ask", lambda state: {"items": [flow.invoke(state["n"]), interrupt("?")]}),
        checkpointer=saver,
    )
    graph.invoke({"n": 3}, ONE)

    assert graph.invoke(Command(resume="yes"), ONE)["items"] == [6, "yes"]
    assert calls == [3]


def test_a_cached_task_runs_once_per_argument():
    calls = []

    @task(cache_policy=CachePolicy(ttl=60))
    def double(n: int) -> int:
        calls.append(n)
        return n * 2

    @entrypoint(cache=InMemoryCache())
    def flow(n: int) -> int:
        return double(n).result()

    assert [flow.invoke(n) for n in (1, 1, 2)] == [2, 2, 4]
    assert calls == [1, 2]


def test_config_reaches_nodes(call):
    values = []
    graph = of(("look", lambda state: values.append(get_config()["configurable"].get("user"))))

    call.invoke(graph, {"n": 1}, {"configurable": {"user": "ann"}})

    assert values == ["ann"]


def test_what_is_not_tracked_is_not_written(call):
    class UntrackedState(TypedDict, total=False):
        n: int
        client: Annotated[Any, UntrackedValue]

    saver = InMemorySaver()
    graph = of(
        ("open", lambda state: {"client": object()}),
        ("use", lambda state: {"n": int("client" in state)}),
        schema=UntrackedState,
        checkpointer=saver,
    )

    assert call.invoke(graph, {"n": 0}, ONE)["n"] == 1
    assert "client" not in saver.read("1", "")[1].body


def test_inner_graphs_are_drawn_where_that_is_asked_for():
    inner = of(("a", lambda state: None), ("b", lambda state: None))
    graph = StateGraph(State)
    graph.add_node("sub", inner)
    graph.add_edge(START, "sub")
    compiled = graph.compile()

    assert set(compiled.get_graph().nodes) == {"__start__", "sub", "__end__"}
    assert {"sub:a", "sub:b"} <= set(compiled.get_graph(xray=True).nodes)
    assert [name for name, _ in compiled.get_subgraphs()] == ["sub"]


@pytest.mark.parametrize("kind", [list, tuple, set, lambda names: dict.fromkeys(names).keys()])
def test_the_targets_of_a_branch_may_be_any_collection(call, kind):
    builder = StateGraph(dict)
    builder.add_node("a", lambda state: {"x": 1}, destinations=kind(["b"]))
    builder.add_node("b", lambda state: {"x": 2})
    builder.add_conditional_edges(START, lambda state: "a", kind(["a"]))
    builder.add_edge("a", "b")

    assert call.invoke(builder.compile(), {"x": 0}) == {"x": 2}
