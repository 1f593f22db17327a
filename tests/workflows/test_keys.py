"""`idempotency_key()` in nodes, tools, and the steps that they call."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from foldline.agents import create_agent
from foldline.checkpoint import InMemorySaver
from foldline.exceptions import UsageError
from foldline.graph import START, StateGraph
from foldline.testing import Call, ScriptedChatModel
from foldline.workflows import (
    Command,
    Durability,
    RetryPolicy,
    idempotency_key,
    interrupt,
    step,
    workflow,
)

ONE = {"configurable": {"thread_id": "1"}}
TWO = {"configurable": {"thread_id": "2"}}
AT_ONCE = RetryPolicy(initial_interval=0, jitter=False, max_attempts=2, retry_on=ConnectionError)


class State(TypedDict, total=False):
    done: Annotated[list[str], operator.add]


def graph_of(node: Any, saver: Any = None, **options: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("pay", node, **options)
    builder.add_edge(START, "pay")
    return builder.compile(checkpointer=saver)


def agent_of(tool: Any, saver: Any = None, calls: int = 1) -> Any:
    def turn(request: Any) -> Any:
        count = sum(1 for message in request.messages if message.type == "tool")
        return "Done." if count >= calls else [Call("pay", {}, id=f"c{count}")]

    return create_agent(ScriptedChatModel(script=turn), [tool], checkpointer=saver)


@pytest.fixture(params=[True, False], ids=["stored", "not stored"])
def saver(request: pytest.FixtureRequest) -> Any:
    return InMemorySaver() if request.param else None


def test_G15_a_node_that_is_tried_again_has_one_key(call, saver):
    keys: list[str] = []

    def pay(state: State) -> State:
        keys.append(idempotency_key())
        if len(keys) == 1:
            raise ConnectionError
        return {"done": ["paid"]}

    call.invoke(graph_of(pay, saver, retry_policy=AT_ONCE), {}, ONE)

    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_G15_a_node_that_asks_has_the_same_key_when_it_is_called_again(call):
    keys: list[str] = []

    def pay(state: State) -> State:
        keys.append(idempotency_key())
        return {"done": [interrupt("sure?")]}

    graph = graph_of(pay, InMemorySaver())
    call.invoke(graph, {}, ONE)
    call.invoke(graph, Command(resume="yes"), ONE)

    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_G15_other_rounds_threads_and_runs_have_other_keys(call, saver):
    keys: list[str] = []

    def pay(state: State) -> State:
        keys.append(idempotency_key())
        return {"done": ["paid"]}

    graph = graph_of(pay, saver)
    for thread in (ONE, ONE, TWO):
        call.invoke(graph, {"done": []}, thread)

    assert len(set(keys)) == 3


def test_G15_the_same_node_on_another_branch_has_another_key(call):
    keys: list[str] = []

    def pay(state: State) -> State:
        keys.append(idempotency_key())
        return {"done": ["paid"]}

    graph = graph_of(pay, InMemorySaver())
    call.invoke(graph, {"done": []}, ONE)
    before = next(item for item in graph.get_state_history(ONE) if item.next == ("pay",))
    call.invoke(graph, None, before.config)

    assert len(set(keys)) == 2


def test_G15_each_call_of_a_tool_has_a_key_of_its_own(call, saver):
    keys: list[str] = []

    def pay() -> str:
        """Pay."""
        keys.append(idempotency_key())
        return "paid"

    agent = agent_of(pay, saver, calls=3)
    call.invoke(agent, "pay", ONE)
    call.invoke(agent, "pay", TWO)

    assert len(keys) == len(set(keys)) == 6


def test_G15_a_tool_that_asks_has_the_same_key_when_it_is_called_again(call):
    keys: list[str] = []

    def pay() -> str:
        """Pay."""
        keys.append(idempotency_key())
        return str(interrupt("sure?"))

    agent = agent_of(pay, InMemorySaver())
    call.invoke(agent, "pay", ONE)
    call.invoke(agent, Command(resume="yes"), ONE)

    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_G15_steps_of_several_tool_calls_have_different_keys(call):
    keys: list[str] = []

    @step
    def charge() -> str:
        keys.append(idempotency_key())
        return "charged"

    def pay() -> str:
        """Pay."""
        return charge()

    call.invoke(agent_of(pay, InMemorySaver(), calls=3), "pay", ONE)

    assert len(keys) == len(set(keys)) == 3


def test_G15_a_node_of_a_graph_that_is_not_stored_has_the_key_of_its_place_in_the_stored_one(call):
    keys: list[str] = []

    def pay(state: State) -> State:
        keys.append(idempotency_key())
        return {"done": ["paid"]}

    inner = graph_of(pay)

    def outer(state: State) -> State:
        inner.invoke({"done": []})
        return {"done": [interrupt("sure?")]}

    graph = graph_of(outer, InMemorySaver())
    graph.invoke({}, ONE)
    graph.invoke({"done": []}, TWO)
    assert len(set(keys)) == 2


def test_G15_steps_of_two_runs_that_are_not_stored_have_different_keys(call):
    keys: list[str] = []

    @step
    def charge() -> str:
        keys.append(idempotency_key())
        return "charged"

    @workflow
    def flow(name: str) -> str:
        return charge()

    for _ in range(2):
        call.invoke(flow, "x")

    assert len(set(keys)) == 2


class Engine(Durability):
    """An engine that stores nothing: the body of a run is called as often as the run is started."""

    async def _start(self, name: str, run_id: str, payload: Any, io: Any) -> dict[str, Any]:
        return await self.perform(name, payload, io, run_id)

    async def step(self, name: str, body: Any, io: Any) -> dict[str, Any]:
        result: dict[str, Any] = await body()
        return result

    def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("face", ["agent", "flow"])
def test_G15_keys_in_an_engine_are_those_of_its_run(call, face):
    keys: list[str] = []

    @step
    def charge() -> str:
        keys.append(idempotency_key())
        return "charged"

    def pay() -> str:
        """Pay."""
        keys.append(idempotency_key())
        return "paid"

    engine = Engine()

    @workflow(durability=engine)
    def flow(name: str) -> list[str]:
        return [charge(), charge()]

    def turn(request: Any) -> Any:
        count = sum(1 for message in request.messages if message.type == "tool")
        return "Done." if count == 2 else [Call("pay", {}, id=f"c{count}")]

    agent = create_agent(ScriptedChatModel(script=turn), [pay], durability=engine)
    program = agent if face == "agent" else flow
    for thread in (ONE, ONE, TWO):
        call.invoke(program, "x", thread)

    assert keys[:2] == keys[2:4]
    assert len(set(keys)) == 4


def test_G15_there_is_no_key_in_the_code_of_a_flow_or_outside(call):
    @workflow
    def flow(name: str) -> str:
        return idempotency_key()

    with pytest.raises(UsageError, match="works inside a step of a flow, a node of a graph"):
        call.invoke(flow, "x")
    with pytest.raises(UsageError, match="works inside a step of a flow, a node of a graph"):
        idempotency_key()
