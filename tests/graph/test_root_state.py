"""A state that is one value and has no keys: `StateGraph(int)`, `StateGraph(Annotated[list, add_messages])`."""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

import pytest

from foldline.exceptions import UsageError
from foldline.graph import (
    END,
    START,
    Command,
    InMemorySaver,
    InvalidUpdateError,
    StateGraph,
    add_messages,
    interrupt,
)
from foldline.messages import AIMessage

ONE = {"configurable": {"thread_id": "1"}}


def counting(checkpointer=None):
    builder = StateGraph(int)
    builder.add_node("add_one", lambda n: n + 1)
    builder.add_node("double", lambda n: n * 2)
    builder.add_edge(START, "add_one")
    builder.add_edge("add_one", "double")
    builder.add_edge("double", END)
    return builder.compile(checkpointer=checkpointer)


def test_nodes_take_the_value_and_return_the_next(call):
    assert call.invoke(counting(), 1) == 4


def test_streams_give_the_value(call):
    assert call.stream(counting(), 1, stream_mode="updates") == [{"add_one": 2}, {"double": 4}]
    assert call.stream(counting(), 1, stream_mode="values") == [1, 2, 4]


def test_a_thread_keeps_the_value(call):
    graph = counting(InMemorySaver())
    call.invoke(graph, 1, ONE)

    assert call.run(graph, "get_state", ONE).values == 4
    call.run(graph, "update_state", ONE, 10)
    assert call.run(graph, "get_state", ONE).values == 10
    assert graph.get_input_schema().model_json_schema()["type"] == "integer"


def test_a_reducer_joins_what_nodes_return(call):
    builder = StateGraph(Annotated[list, operator.add])
    builder.add_node("a", lambda items: [f"a{len(items)}"])
    builder.add_node("b", lambda items: Command(update=["b"], goto=END))
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")

    assert call.invoke(builder.compile(), ["in"]) == ["in", "a1", "b"]


def test_messages_can_be_the_whole_state(call):
    builder = StateGraph(Annotated[list, add_messages])
    builder.add_node("model", lambda messages: AIMessage(f"you said {messages[-1].content}"))
    builder.add_conditional_edges(
        "model", lambda messages: END if messages[-1].type == "ai" else "model"
    )
    builder.add_edge(START, "model")

    result = call.invoke(builder.compile(), ("user", "hi"))

    assert [message.content for message in result] == ["hi", "you said hi"]


def test_a_question_stops_the_run_and_the_answer_goes_on(call):
    builder = StateGraph(str)
    builder.add_node("ask", lambda text: text + interrupt("more?"))
    builder.add_edge(START, "ask")
    graph = builder.compile(InMemorySaver())

    state = call.invoke(graph, "a", ONE)

    assert [question.value for question in state["__interrupt__"]] == ["more?"]
    assert call.run(graph, "get_state", ONE).values == "a"
    assert call.invoke(graph, Command(resume="b"), ONE) == "ab"


def test_a_dict_can_be_one_value(call):
    builder = StateGraph(dict)
    builder.add_node("add", lambda value: {**value, "b": 2})
    builder.add_edge(START, "add")

    assert call.invoke(builder.compile(), {"a": 1}) == {"a": 1, "b": 2}


def test_a_value_of_another_type_is_named(call):
    builder = StateGraph(int)
    builder.add_node("say", lambda n: "many")
    builder.add_edge(START, "say")

    with pytest.raises(
        InvalidUpdateError, match="the node 'say' has the state with a str, which does not match"
    ):
        call.invoke(builder.compile(), 1)


def test_a_state_is_one_value_or_has_keys():
    class State(TypedDict):
        n: int

    with pytest.raises(UsageError, match="one value, or it has keys"):
        StateGraph(State, input_schema=int)
    with pytest.raises(UsageError, match="or another type, not"):
        StateGraph({"n": int})
