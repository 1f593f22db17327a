"""A run that has lost its thread stops before its next effect: in agents, graphs, sub-graphs and flows."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from foldline.agents import create_agent
from foldline.checkpoint import BaseCheckpointSaver, InMemorySaver, SqliteSaver
from foldline.checkpoint._local_writers import local_writers
from foldline.exceptions import ThreadConflictError
from foldline.graph import START, StateGraph
from foldline.testing import Call, ScriptedChatModel
from foldline.workflows import gather, step, workflow

THREAD = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    done: Annotated[list[int], operator.add]


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as stored:
        yield stored


class Effects:
    """Effects of a run, whose thread is taken over by another run in the first of them."""

    def __init__(self, saver: BaseCheckpointSaver) -> None:
        self.saver, self.numbers = saver, list[int]()

    def have(self, number: int) -> int:
        self.numbers.append(number)
        if len(self.numbers) == 1:
            self.take_over()
        return number

    def take_over(self) -> None:
        """Claim the thread as a process does that takes its owner for dead."""
        if isinstance(self.saver, SqliteSaver):
            writers = self.saver._writers
            query = (
                "UPDATE foldline_writers SET epoch = epoch + 1, worker = 'other' WHERE thread = '1'"
            )
            writers._database.write(lambda connection: connection.run(query, ()))
            writers._renewed = float("-inf")  # its own row is as old
        else:
            local_writers(self.saver).delete("1")
            self.saver.claim("1", "other")


@pytest.fixture
def effects(saver: BaseCheckpointSaver) -> Effects:
    return Effects(saver)


def agent_of(effects: Effects, *answers: list[Call]) -> Any:
    def work(number: int) -> str:
        """Work."""
        return str(effects.have(number))

    model = ScriptedChatModel(script=[*answers, "Done."])
    return create_agent(model, [work], checkpointer=effects.saver)


def calls(*numbers: int) -> list[Call]:
    return [Call("work", {"number": number}, id=f"c{number}") for number in numbers]


def test_a_tool_does_not_run_after_the_thread_was_lost_in_an_earlier_one(call, effects):
    agent = agent_of(effects, calls(0, 1, 2))

    with pytest.raises(ThreadConflictError, match="does not own thread"):
        call.invoke(agent, "go", {**THREAD, "max_concurrency": 1})

    assert effects.numbers == [0]


def test_a_model_is_not_called_after_the_thread_was_lost(call, effects):
    agent = agent_of(effects, calls(0), calls(1))

    with pytest.raises(ThreadConflictError, match="does not own thread"):
        call.invoke(agent, "go", THREAD)

    assert effects.numbers == [0]


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_step_of_a_flow_does_not_run_after_the_thread_was_lost(call, effects, durability):
    @step
    def work(number: int) -> int:
        return effects.have(number)

    @workflow(checkpointer=effects.saver)
    def flow(name: str) -> list[int]:
        return [work(number) for number in range(3)]

    with pytest.raises(ThreadConflictError, match="does not own thread"):
        call.invoke(flow, "go", THREAD, durability=durability)

    assert effects.numbers == [0]


def test_concurrent_steps_of_a_flow_do_not_begin_after_the_thread_was_lost(call, effects):
    @step
    def work(number: int) -> int:
        return effects.have(number)

    @workflow(checkpointer=effects.saver)
    def flow(name: str) -> list[int]:
        return gather(work.each(range(3)), limit=1)

    with pytest.raises(ThreadConflictError, match="does not own thread"):
        call.invoke(flow, "go", THREAD)

    assert effects.numbers == [0]


def graph_of(effects: Effects, numbers: range, saver: Any, *, parallel: bool) -> Any:
    def node(number: int) -> Any:
        return lambda state: {"done": [effects.have(number)]}

    builder = StateGraph(State)
    for number in numbers:
        builder.add_node(str(number), node(number))
        is_first = parallel or number == numbers[0]
        builder.add_edge(START if is_first else str(number - 1), str(number))
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("parallel", [False, True], ids=["one after another", "in one step"])
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_node_does_not_run_after_the_thread_was_lost(call, effects, parallel, durability):
    graph = graph_of(effects, range(3), effects.saver, parallel=parallel)

    with pytest.raises(ThreadConflictError, match="does not own thread"):
        call.invoke(graph, {"done": []}, {**THREAD, "max_concurrency": 1}, durability=durability)

    assert effects.numbers == [0]


def test_a_node_of_a_nested_graph_does_not_run_after_the_thread_was_lost(call, effects):
    builder = StateGraph(State)
    builder.add_node("inner", graph_of(effects, range(3), None, parallel=False))
    builder.add_edge(START, "inner")

    with pytest.raises(ThreadConflictError, match="does not own thread"):
        call.invoke(builder.compile(checkpointer=effects.saver), {"done": []}, THREAD)

    assert effects.numbers == [0]


def test_a_step_in_a_tool_does_not_run_after_the_thread_was_lost(call, effects):
    @step
    def one(number: int) -> int:
        return effects.have(number)

    def work() -> str:
        """Work."""
        return str([one(number) for number in range(3)])

    model = ScriptedChatModel(script=[[Call("work", {})], "Done."])

    with pytest.raises(ThreadConflictError, match="does not own thread"):
        call.invoke(create_agent(model, [work], checkpointer=effects.saver), "go", THREAD)

    assert effects.numbers == [0]


def test_a_flow_that_lost_its_thread_does_not_undo_its_steps(call, effects):
    undone: list[int] = []

    @step(on_failure=undone.append)
    def work(number: int) -> int:
        return number

    @step
    def lose() -> int:
        return effects.have(0)

    @workflow(checkpointer=effects.saver)
    def flow(name: str) -> int:
        work(1)
        return lose()

    with pytest.raises(ThreadConflictError, match="does not own thread"):
        call.invoke(flow, "go", THREAD)

    assert undone == []
