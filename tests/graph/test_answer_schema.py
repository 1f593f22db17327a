"""Questions with a schema for their answers: in graphs, tools, agents and flows, on every saver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator
from typing_extensions import TypedDict

from foldline.agents import create_agent
from foldline.exceptions import UsageError
from foldline.graph import (
    START,
    Command,
    Interrupt,
    MessagesState,
    RetryPolicy,
    StateGraph,
    ToolNode,
    interrupt,
    is_invalid_resume,
)
from foldline.messages import AIMessage
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.workflows import step, workflow
from tests.graph.lines import answer, fan, line

INPUT = {"log": []}


class Decision(BaseModel):
    ok: bool


class Amount(BaseModel):
    """A type whose own function accepts more than its schema shows."""

    euros: int = Field(gt=0)

    @field_validator("euros", mode="before")
    @classmethod
    def read_words(cls, value):
        return {"ten": 10}.get(value, value)


class Choice(TypedDict):
    colour: Literal["red", "blue"]


@dataclass
class Size:
    width: int


JSON_SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
}


def question(schema, effects=None):
    def node(state):
        if effects is not None:
            effects.append("began")
        return {"log": [repr(interrupt("sure?", response_schema=schema))]}

    return node


def kinds(saver, thread):
    thread_id = thread["configurable"]["thread_id"]
    return [entry.body.split('"kind":"')[1].split('"')[0] for entry in saver.read(thread_id, "")]


@pytest.mark.parametrize(
    ("schema", "bad", "good", "text"),
    [
        (Decision, {"ok": "maybe"}, {"ok": True}, "Decision(ok=True)"),
        (Decision, {"no": 1}, Decision(ok=False), "Decision(ok=False)"),
        (Decision, "x", {"ok": "true", "more": 1}, "Decision(ok=True)"),
        (Choice, {"colour": "green"}, {"colour": "red"}, "{'colour': 'red'}"),
        (Size, {"width": "wide"}, Size(3), "Size(width=3)"),
        (list[int], ["a"], [1, "2"], "[1, 2]"),
        (JSON_SCHEMA, {"ok": "true"}, {"ok": True, "more": 1}, "{'ok': True, 'more': 1}"),
    ],
)
def test_G14_an_answer_that_does_not_fit_is_refused_before_it_is_stored(
    call, saver, thread, schema, bad, good, text
):
    effects = []
    graph = line(("a", question(schema, effects)), saver=saver)
    [first] = call.invoke(graph, INPUT, thread)["__interrupt__"]
    before = kinds(saver, thread)

    with pytest.raises(ValidationError) as caught:
        call.invoke(graph, answer(bad), thread)

    assert is_invalid_resume(caught.value)
    assert kinds(saver, thread) == before
    assert effects == ["began"]
    state = call.run(graph, "get_state", thread)
    assert (state.next, state.interrupts) == (("a",), (first,))
    assert call.invoke(graph, answer({first.id: good}), thread) == {"log": [text]}


def test_G14_a_question_carries_the_schema_of_its_answer(call, saver, thread):
    graph = line(("a", question(Decision)), saver=saver)

    pieces = list(call.stream(graph, INPUT, thread))

    [asked] = call.run(graph, "get_state", thread).tasks[0].interrupts
    assert asked == Interrupt("sure?", asked.id, response_schema=Decision.model_json_schema())
    assert pieces == [{"__interrupt__": (asked,)}]


@pytest.mark.parametrize("bad", [{"euros": "eleven"}, {"euros": 0}])
def test_G14_a_type_that_converts_answers_is_checked_when_the_question_is_reached(
    call, saver, thread, bad
):
    graph = line(("a", question(Amount)), saver=saver)
    [first] = call.invoke(graph, INPUT, thread)["__interrupt__"]

    with pytest.raises(ValidationError) as caught:
        call.invoke(graph, answer(bad), thread)

    assert is_invalid_resume(caught.value)
    state = call.run(graph, "get_state", thread)
    assert (state.next, state.interrupts) == (("a",), (first,))
    assert call.invoke(graph, answer({"euros": "ten"}), thread) == {"log": ["Amount(euros=10)"]}


@pytest.mark.parametrize("schema", [Decision, Amount])
def test_G14_the_other_answers_of_a_map_are_used(call, saver, thread, schema):
    effects = []

    def pay(state):
        interrupt("pay?", response_schema=Decision)
        effects.append("paid")
        return {"log": ["paid"]}

    good = {"ok": True, "euros": 1}
    graph = fan(("pay", pay), ("check", question(schema)), saver=saver)
    ids = {item.value: item.id for item in call.invoke(graph, INPUT, thread)["__interrupt__"]}

    with pytest.raises(ValidationError):
        call.invoke(graph, answer({ids["pay?"]: good, ids["sure?"]: {"ok": 7, "euros": 0}}), thread)

    state = call.run(graph, "get_state", thread)
    assert (state.next, [item.value for item in state.interrupts]) == (("check",), ["sure?"])
    assert effects == ["paid"]
    result = call.invoke(graph, answer({ids["sure?"]: good}), thread)
    assert sorted(result["log"])[1:] == ["paid"]
    assert effects == ["paid"]


@pytest.mark.parametrize("schema", [Decision, Amount])
def test_G14_a_question_of_a_nested_graph_stays_open(call, saver, thread, schema):
    inner = line(("a", question(schema)))
    graph = line(("inner", inner), "end", saver=saver)
    [first] = call.invoke(graph, INPUT, thread)["__interrupt__"]

    with pytest.raises(ValidationError):
        call.invoke(graph, answer({"ok": 7, "euros": 0}), thread)

    assert call.run(graph, "get_state", thread).interrupts == (first,)
    result = call.invoke(graph, answer({"ok": True, "euros": 1}), thread)
    assert result["log"][1:] == ["end"]


@pytest.mark.parametrize("schema", [Decision, Amount])
@pytest.mark.parametrize("handler", [True, (ValueError,), "broken"])
def test_G14_no_handler_of_a_tool_node_takes_the_error(call, saver, thread, schema, handler):
    @tool
    def ask() -> str:
        """Ask."""
        return repr(interrupt("sure?", response_schema=schema))

    graph = (
        StateGraph(MessagesState)
        .add_node("tools", ToolNode([ask], handle_tool_errors=handler), retry_policy=RetryPolicy())
        .add_edge(START, "tools")
        .compile(checkpointer=saver)
    )
    calls = [{"name": "ask", "args": {}, "id": "1", "type": "tool_call"}]
    [first] = call.invoke(graph, {"messages": [AIMessage("", tool_calls=calls)]}, thread)[
        "__interrupt__"
    ]

    with pytest.raises(ValidationError):
        call.invoke(graph, answer({"ok": 7, "euros": 0}), thread)

    assert call.run(graph, "get_state", thread).interrupts == (first,)
    result = call.invoke(graph, answer({"ok": True, "euros": 1}), thread)
    assert result["messages"][-1].content.startswith(schema.__name__)


@pytest.mark.parametrize("schema", [Decision, Amount])
def test_G14_an_agent_keeps_the_question_of_its_tool(call, saver, thread, schema):
    @tool
    def ask() -> str:
        """Ask."""
        return repr(interrupt("sure?", response_schema=schema))

    agent = create_agent(
        ScriptedChatModel(script=[[Call("ask", {})], "ok"]), [ask], checkpointer=saver
    )
    [first] = call.invoke(agent, "?", thread)["__interrupt__"]

    with pytest.raises(ValidationError) as caught:
        call.invoke(agent, answer({"ok": 7, "euros": 0}), thread)

    assert is_invalid_resume(caught.value)
    assert first.response_schema == schema.model_json_schema()
    assert call.run(agent, "get_state", thread).interrupts == (first,)
    state = call.invoke(agent, answer({"ok": True, "euros": 1}), thread)
    assert state["messages"][2].content.startswith(schema.__name__)


@pytest.mark.parametrize("schema", [Decision, Amount])
def test_G14_a_flow_keeps_its_question_and_its_steps(call, saver, thread, schema):
    effects = []

    @step
    def charge(amount: int) -> int:
        effects.append(amount)
        return amount

    @workflow(checkpointer=saver)
    def checkout(amount: int):
        return [charge(amount), repr(interrupt("ship?", response_schema=schema))]

    call.invoke(checkout, 5, thread)

    with pytest.raises(ValidationError) as caught:
        call.invoke(checkout, answer({"ok": 7, "euros": 0}), thread)

    assert is_invalid_resume(caught.value)
    result = call.invoke(checkout, answer({"ok": True, "euros": 1}), thread)
    assert (result[0], result[1][:1], effects) == (5, schema.__name__[:1], [5])


def test_G14_other_errors_are_not_marked():
    with pytest.raises(ValidationError) as caught:
        Decision.model_validate({})

    assert not is_invalid_resume(caught.value)
    assert not is_invalid_resume(ValueError("no"))


def test_G14_a_type_without_a_json_schema_is_refused_when_the_question_is_asked(
    call, saver, thread
):
    graph = line(("a", question(type(lambda: None))), saver=saver)

    with pytest.raises(UsageError, match="response_schema"):
        call.invoke(graph, INPUT, thread)


def test_G14_a_command_may_change_the_state_with_the_answer(call, saver, thread):
    graph = line(("a", question(Decision)), saver=saver)
    call.invoke(graph, INPUT, thread)

    with pytest.raises(ValidationError):
        call.invoke(graph, Command(resume={"ok": 7}, update={"log": ["x"]}), thread)

    assert call.run(graph, "get_state", thread).values == {"log": []}
