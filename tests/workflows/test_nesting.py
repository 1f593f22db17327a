"""Agents, graphs and flows that a flow or a step calls: part of its thread, with its questions and its answers."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from foldline.agents import create_agent
from foldline.checkpoint import InMemorySaver, SqliteSaver
from foldline.graph import START, StateGraph
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.workflows import Command, gather, interrupt, step, workflow

ONE = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    items: Annotated[list[Any], operator.add]


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    return InMemorySaver() if request.param == "memory" else SqliteSaver(tmp_path / "flows.db")


class Asker:
    """An agent whose tool asks a person; `log` is what ran."""

    def __init__(self, name="agent", saver=None):
        self.log: list[str] = []

        @tool
        def ask(question: str) -> str:
            """Ask."""
            self.log.append("tool")
            return str(interrupt(question))

        def turn(request):
            self.log.append("model")
            last = request.messages[-1]
            return (
                f"{name}: {last.text}"
                if last.type == "tool"
                else [Call("ask", {"question": name}, id="c")]
            )

        self.agent = create_agent(ScriptedChatModel(script=turn), [ask], checkpointer=saver)

    def answer(self, config=None) -> str:
        return self.agent.invoke("go", config)["messages"][-1].text


@pytest.mark.parametrize("has_own_saver", [False, True])
@pytest.mark.parametrize("is_step", [False, True])
def test_an_agent_inside_a_flow_asks_through_the_flow(saver, has_own_saver, is_step):
    asker = Asker(saver=saver if has_own_saver else None)
    body = step(asker.answer) if is_step else asker.answer

    @workflow(checkpointer=saver)
    def flow(name: str) -> str:
        return body()

    state = flow.invoke("x", ONE)
    assert [question.value for question in state["__interrupt__"]] == ["agent"]

    assert flow.invoke(Command(resume="yes"), ONE) == "agent: yes"
    assert asker.log == [
        "model",
        "tool",
        "tool",
        "model",
    ]  # the node that asks is called again, the model is not


def test_an_agent_that_a_flow_called_is_not_asked_again_when_the_flow_goes_on(saver):
    asker = Asker()

    @workflow(checkpointer=saver)
    def flow(name: str) -> list[str]:
        first = asker.answer()
        return [first, str(interrupt("more?"))]

    flow.invoke("x", ONE)
    flow.invoke(Command(resume="yes"), ONE)
    assert flow.invoke(Command(resume="no"), ONE) == ["agent: yes", "no"]
    assert asker.log == ["model", "tool", "tool", "model"]


def test_a_graph_inside_a_flow_goes_on_where_it_asked(saver):
    runs = []

    def first(state: State) -> State:
        runs.append("first")
        return {"items": ["first"]}

    def second(state: State) -> State:
        return {"items": [interrupt("?")]}

    builder = StateGraph(State)
    builder.add_sequence([first, second])
    builder.add_edge(START, "first")
    graph = builder.compile()

    @workflow(checkpointer=saver)
    def flow(name: str) -> list[Any]:
        return graph.invoke({})["items"]

    flow.invoke("x", ONE)
    assert flow.invoke(Command(resume="yes"), ONE) == ["first", "yes"]
    assert runs == ["first"]


def test_agents_in_steps_of_one_node_do_not_take_each_others_place(saver):
    first_asker, two = Asker("one"), Asker("two")
    first, second = step(name="first")(first_asker.answer), step(name="second")(two.answer)
    builder = StateGraph(State)
    builder.add_node("both", lambda state: {"items": [first(), second()]})
    builder.add_edge(START, "both")
    graph = builder.compile(checkpointer=saver)

    graph.invoke({}, ONE)
    graph.invoke(Command(resume="A"), ONE)
    state = graph.invoke(Command(resume="B"), ONE)

    assert state["items"] == ["one: A", "two: B"]
    assert first_asker.log == two.log == ["model", "tool", "tool", "model"]


def test_questions_of_a_fan_out_come_in_the_order_of_its_calls(saver):
    @step
    def ask(number: int) -> str:
        return str(interrupt(number))

    @workflow(checkpointer=saver)
    def flow(count: int) -> list[str]:
        return gather(ask.each(range(count)))

    questions = flow.invoke(8, ONE)["__interrupt__"]
    assert [question.value for question in questions] == list(range(8))

    answers = {question.id: str(question.value) for question in questions}
    assert flow.invoke(Command(resume=answers), ONE) == [str(number) for number in range(8)]


def test_an_agent_that_names_a_thread_of_its_own_keeps_it(saver):
    own_saver = InMemorySaver()
    agent = create_agent(
        ScriptedChatModel(script=lambda request: str(len(request.messages))), checkpointer=own_saver
    )

    @step
    def talk(number: int) -> str:
        config = {"configurable": {"thread_id": "customer"}}
        return agent.invoke(f"hello {number}", config)["messages"][-1].text

    @workflow(checkpointer=saver)
    def flow(number: int) -> str:
        return talk(number)

    answers = [flow.invoke(n, {"configurable": {"thread_id": str(n)}}) for n in (1, 2)]

    assert answers == ["1", "3"]  # it remembers across flows
    assert own_saver.read("customer", "")


def test_what_was_done_is_undone_without_a_checkpointer_too():
    undone = []

    @step(on_failure=undone.append)
    def charge(amount: int) -> int:
        return amount

    @workflow
    def flow(amount: int) -> int:
        charge(amount)
        raise ValueError("no stock")

    with pytest.raises(ValueError, match="no stock"):
        flow(5)
    assert undone == [5]
