"""The state of an agent: how updates join what was there."""

from __future__ import annotations

import operator
from typing import Annotated

import pytest

from foldline.agents import create_agent
from foldline.agents.state import REMOVE_ALL_MESSAGES, AgentState, StateSchema, add_messages
from foldline.checkpoint.memory import InMemorySaver
from foldline.exceptions import SchemaError, UsageError
from foldline.messages import AIMessage, HumanMessage, RemoveMessage
from foldline.testing import ScriptedChatModel
from foldline.workflows.interrupts import Command


class Tally(AgentState):
    total: Annotated[int, operator.add]
    label: str


def test_messages_are_appended_replaced_and_removed_by_id():
    first = add_messages([], [("user", "a"), AIMessage("b", id="b")])

    assert [message.text for message in first] == ["a", "b"]
    assert all(message.id for message in first)
    assert [message.text for message in add_messages(first, AIMessage("c", id="b"))] == ["a", "c"]
    assert [message.text for message in add_messages(first, RemoveMessage(id="b"))] == ["a"]
    fresh = add_messages(first, [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("new")])
    assert [message.text for message in fresh] == ["new"]
    with pytest.raises(UsageError, match="no message with the id 'z'"):
        add_messages(first, RemoveMessage(id="z"))


def test_the_callers_own_messages_are_not_changed():
    message = HumanMessage("a")

    assert add_messages([], [message])[0].id
    assert message.id is None


def test_a_key_with_a_function_is_joined_and_another_replaced():
    schema = StateSchema([Tally])
    state = schema.update({"total": 1, "label": "x"}, {"total": 2, "label": "y"})

    assert state == {"total": 3, "label": "y"}


def test_keys_nobody_declared_are_refused_and_private_ones_are_not_shown():
    schema = StateSchema([Tally])

    with pytest.raises(UsageError, match="'colour'"):
        schema.prepare({"colour": 1}, "a hook")
    assert schema.public_values({"messages": [], "jump_to": "end"}) == {"messages": []}
    assert schema.input_update({"messages": "hi", "jump_to": "end"}).keys() == {"messages"}


def test_values_are_read_back_by_their_types():
    schema = StateSchema([Tally])

    assert schema.read("total", 3) == 3
    with pytest.raises(SchemaError, match="'total'"):
        schema.read("total", "many")
    with pytest.raises(SchemaError, match="'colour'"):
        schema.read("colour", 1)


@pytest.mark.parametrize("update", [3, [1]])
def test_an_update_of_another_form_is_named(call, update):
    agent = create_agent(ScriptedChatModel(script=["x"]), [], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    call.invoke(agent, {"messages": "hi"}, thread)

    with pytest.raises(UsageError, match="a list of pairs"):
        call.invoke(agent, Command(update=update), thread)
    with pytest.raises(UsageError, match="a dict with some of messages"):
        call.run(agent, "update_state", thread, update)
