"""`Overwrite`: a value that replaces the old one, alone among the updates of a step."""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

import pytest

from foldline.graph import START, Command, InvalidUpdateError, MessagesState, Overwrite, StateGraph
from foldline.graph.schema import StateKeys
from foldline.messages import HumanMessage
from tests.graph.lines import fan, line

INPUT = {"log": ["in"]}
FORMS = [Overwrite, lambda value: {"__overwrite__": value}]


def writes(value):
    return lambda state: {"log": value}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("first", "second"), [("b", "c"), ("c", "b")])
def test_G31_an_overwrite_wins_over_the_other_updates_of_its_step(
    call, saver, thread, form, first, second
):
    graph = fan((first, writes(form(["B"]))), (second, writes(["C"])), saver=saver)

    assert call.invoke(graph, INPUT, thread) == {"log": ["B"]}
    assert call.run(graph, "get_state", thread).values == {"log": ["B"]}


@pytest.mark.parametrize("form", FORMS)
def test_G31_later_steps_add_to_the_new_value(call, saver, thread, form):
    graph = line(("a", writes(form(["A"]))), "b", saver=saver)

    assert call.invoke(graph, INPUT, thread) == {"log": ["A", "b"]}
    assert call.run(graph, "get_state", thread).values == {"log": ["A", "b"]}


@pytest.mark.parametrize("form", FORMS)
def test_G31_two_overwrites_of_a_key_in_one_step_are_refused(call, saver, thread, form):
    graph = fan(("b", writes(form(["B"]))), ("c", writes(form(["C"]))), saver=saver)

    with pytest.raises(InvalidUpdateError, match="receive only one Overwrite value per super-step"):
        call.invoke(graph, INPUT, thread)


def test_G31_an_overwrite_among_the_commands_of_one_node_wins_too(call, saver, thread):
    def node(state):
        return [
            Command(update={"log": ["x"]}),
            Command(update={"log": Overwrite(["B"])}),
            Command(update={"log": ["y"]}),
        ]

    graph = line(("a", node), saver=saver)

    assert call.invoke(graph, INPUT, thread) == {"log": ["B"]}


class Dicts(TypedDict):
    plain: dict
    joined: Annotated[dict, operator.or_]


@pytest.mark.parametrize(
    "update",
    [{"plain": {"__overwrite__": 5}}, {"joined": {"__overwrite__": {"a": 1}, "other": 2}}],
    ids=["a key without reducer", "other keys beside it"],
)
def test_G31_a_dict_that_is_no_overwrite_is_stored_as_it_is(call, saver, thread, update):
    builder = StateGraph(Dicts).add_node("a", lambda state: update).add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)

    values = call.invoke(graph, {"plain": {}, "joined": {}}, thread)

    assert values == {"plain": {}, "joined": {}} | update
    assert call.run(graph, "get_state", thread).values == values


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "value", [[("user", "hi")], "hi", ("user", "hi"), [{"role": "user", "content": "hi"}]]
)
def test_G31_an_overwrite_of_messages_takes_every_form_of_them(call, saver, thread, form, value):
    builder = StateGraph(MessagesState)
    builder.add_node("a", lambda state: {"messages": form(value)}).add_edge(START, "a")
    builder.add_node("b", lambda state: {"messages": "then"}).add_edge("a", "b")
    graph = builder.compile(checkpointer=saver)

    messages = call.invoke(graph, {"messages": "first"}, thread)["messages"]

    assert [message.content for message in messages] == ["hi", "then"]
    assert all(message.id for message in messages)
    assert call.run(graph, "get_state", thread).values == {"messages": messages}


def test_G31_messages_that_were_overwritten_grow_in_place_while_a_log_is_folded():
    keys = StateKeys([MessagesState])
    new = Overwrite([HumanMessage("new", id="1")])

    values = keys.join(keys.growing(), [("a", {"messages": new})])
    later = keys.join(values, [("a", {"messages": [HumanMessage("later", id="2")]})])

    assert later["messages"] is values["messages"]
    assert [message.id for message in later["messages"]] == ["1", "2"]
