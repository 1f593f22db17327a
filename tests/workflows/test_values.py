"""Values that JSON does not have come back from a journal as they were, and the journal stays JSON for everybody."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import Annotated, TypedDict

import pytest
from pydantic import BaseModel

from foldline.agents import AgentState, Command, create_agent, interrupt
from foldline.checkpoint import InMemorySaver
from foldline.exceptions import SchemaError
from foldline.graph import START, StateGraph, add_messages
from foldline.messages import AnyMessage, HumanMessage
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.workflows import step, workflow
from foldline.workflows.values import from_text, to_text

ONE = {"configurable": {"thread_id": "1"}}
ODD = [math.nan, math.inf, -math.inf]


class Reading(BaseModel):
    values: list[float]


def refuse(name):
    raise ValueError(f"{name} is no JSON")


def check_json(saver):
    """Read every record as a strict reader does."""
    for namespaces in saver._threads.values():
        for entry in [entry for entries in namespaces.values() for entry in entries]:
            json.loads(entry.body, parse_constant=refuse)


def same(values):
    return [repr(value) for value in values] == [repr(value) for value in ODD]


def test_numbers_come_back_in_a_flow(call):
    saver = InMemorySaver()

    @step
    def measure(count: int) -> Reading:
        return Reading(values=ODD)

    @step
    def plain(count: int):
        return {"all": (*ODD,)}

    @workflow(checkpointer=saver)
    def flow(count: int):
        reading, other = measure(count), plain(count)
        interrupt(math.nan)
        return [reading.values, list(other["all"])]

    call.invoke(flow, 1, ONE)
    first, second = call.invoke(flow, Command(resume=math.inf), ONE)

    assert same(first)
    assert same(second)
    check_json(saver)


def test_numbers_come_back_in_a_graph(call):
    class State(TypedDict, total=False):
        values: list[float]

    saver = InMemorySaver()
    builder = StateGraph(State)
    builder.add_node("measure", lambda state: {"values": ODD})
    builder.add_edge(START, "measure")
    graph = builder.compile(checkpointer=saver)

    call.invoke(graph, {"values": [math.nan]}, ONE)

    assert same(call.run(graph, "get_state", ONE).values["values"])
    check_json(saver)


def test_numbers_come_back_in_an_agent(call):
    class State(AgentState):
        values: list[float]

    @tool
    def measure(at: float) -> Command:
        """Measure."""
        return Command(update={"values": ODD})

    saver = InMemorySaver()
    script = [[Call("measure", {"at": 1.5})], "Done."]
    agent = create_agent(
        ScriptedChatModel(script=script), [measure], checkpointer=saver, state_schema=State
    )

    call.invoke(agent, "go", ONE)

    state = call.run(agent, "get_state", ONE).values
    assert same(state["values"])
    check_json(saver)


def test_a_long_time_keeps_its_microseconds():
    length = timedelta(days=999_999, microseconds=1)

    @step
    def measure(count: int):
        return length

    @workflow(checkpointer=InMemorySaver())
    def flow(count: int):
        duration = measure(count)
        interrupt("?")
        return duration

    flow.invoke(1, ONE)
    assert flow.invoke(Command(resume=1), ONE) == length


@pytest.mark.parametrize("number", ['"seven"', "[1]", "{}", "null"])
def test_a_number_that_is_none_stays_what_it_is(number):
    body = from_text(f'{{"v": 1, "kind": "x", "a": {{"__foldline_number__": {number}}}}}', "it")
    assert body["a"] == {"__foldline_number__": json.loads(number)}
    with pytest.raises(SchemaError, match="no version"):
        from_text('{"__foldline_number__": "nan"}', "it")
    assert json.loads(to_text({"a": 1})) == {"a": 1}


@pytest.mark.parametrize("number", ["nan", "inf", {"value": "nan"}, math.nan, {"a": 1}])
def test_a_value_that_looks_like_the_tag_of_a_number_comes_back(number):
    body = {"v": 1, "kind": "x", "value": [{"__foldline_number__": number}]}

    assert repr(from_text(to_text(body), "a record")) == repr(body)


class Voice(HumanMessage):
    seconds: int = 0


def test_a_message_of_a_class_that_cannot_be_loaded_is_refused_when_it_is_written(call):
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]

    builder = StateGraph(State).add_node("a", lambda state: {"messages": [Voice("hi", seconds=3)]})
    graph = builder.add_edge(START, "a").compile(checkpointer=InMemorySaver())

    with pytest.raises(SchemaError, match="register_loadable"):
        call.invoke(graph, {"messages": ["hello"]}, ONE)

    messages = call.run(graph, "get_state", ONE).values["messages"]
    assert [message.content for message in messages] == ["hello"]


def test_a_message_of_a_declared_class_comes_back(call):
    class State(TypedDict):
        last: Voice

    builder = StateGraph(State).add_node("a", lambda state: {"last": Voice("hi", seconds=3)})
    graph = builder.add_edge(START, "a").compile(checkpointer=InMemorySaver())

    call.invoke(graph, {"last": Voice("")}, ONE)

    assert call.run(graph, "get_state", ONE).values == {"last": Voice("hi", seconds=3)}
