"""The prebuilt parts of LangGraph: an agent whose server repeats its ids, and the node that checks tool calls."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, field_validator

from foldline.exceptions import UsageError
from foldline.graph import (
    END,
    START,
    BaseCheckpointSaver,
    StateGraph,
    ToolNode,
    ValidationNode,
    add_messages,
    create_react_agent,
)
from foldline.language_models import GenericFakeChatModel
from foldline.messages import AIMessage
from foldline.tools import tool


class SelectNumber(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def is_meaningful(cls, value):
        if value != 37:
            raise ValueError("only 37 is allowed")
        return value


class Repeating(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


def asking(number, id="call_1"):
    return AIMessage("", tool_calls=[{"name": "SelectNumber", "args": {"a": number}, "id": id}])


def test_an_answer_with_a_known_id_does_not_take_the_place_of_the_first(call):
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    called = AIMessage("", id="msg_1", tool_calls=[{"name": "look", "args": {}, "id": "call_1"}])
    model = Repeating(messages=iter([called, AIMessage("done", id="msg_1")]))

    found = call.invoke(create_react_agent(model, [look]), {"messages": [("user", "hi")]})

    assert [message.type for message in found["messages"]] == ["human", "ai", "tool", "ai"]
    assert found["messages"][-1].text == "done"


def test_a_call_without_an_id_is_answered(call):
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    asked = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": None}])

    found = call.invoke(ToolNode([look]), {"messages": [asked]})

    assert [(message.content, message.tool_call_id) for message in found["messages"]] == [
        ("nothing", "")
    ]


def test_calls_that_do_not_fit_go_back_to_the_model(call):
    answers = iter([asking(3), asking(37, "call_2")])
    builder = StateGraph(Annotated[list, add_messages])
    builder.add_node("model", lambda messages: next(answers))
    builder.add_node("validation", ValidationNode([SelectNumber]))
    builder.add_edge(START, "model")
    builder.add_edge("model", "validation")
    builder.add_conditional_edges(
        "validation",
        lambda messages: "model" if messages[-1].additional_kwargs.get("is_error") else END,
    )

    found = call.invoke(builder.compile(), ("user", "choose"))

    assert [message.type for message in found] == ["human", "ai", "tool", "ai", "tool"]
    assert "only 37 is allowed" in found[2].content
    assert found[4].content == '{"a":37}'


def test_tools_and_functions_have_schemas_and_a_state_may_have_keys(call):
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    message = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1, "b": "x"}, "id": "1"}])
    node = ValidationNode([add], format_error=lambda error, call, schema: f"bad {call['name']}")

    assert call.invoke(node, {"messages": [message]})["messages"][0].content == "bad add"
    with pytest.raises(UsageError, match="no schema for 'add'"):
        call.invoke(ValidationNode([SelectNumber]), [message])
    with pytest.raises(UsageError, match="the last message is"):
        call.invoke(node, [])


def test_a_saver_may_be_subscripted():
    assert issubclass(BaseCheckpointSaver[str], BaseCheckpointSaver)


def test_the_messages_of_an_update_have_the_ids_of_the_state(call):
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    called = AIMessage("", id="a", tool_calls=[{"name": "look", "args": {}, "id": "call_1"}])
    model = Repeating(messages=iter([called, AIMessage("done", id="b")]))
    modes = ["updates", "values"]

    said = call.stream(
        create_react_agent(model, [look]), {"messages": [("user", "hi")]}, stream_mode=modes
    )

    shown = [update["tools"]["messages"][0].id for mode, update in said if "tools" in update]
    assert shown == [said[-1][1]["messages"][2].id]
    assert shown[0] is not None
