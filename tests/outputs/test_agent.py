"""The actions and results of an agent, as values."""

from __future__ import annotations

import pytest

from foldline.load import dumpd, load
from foldline.messages import AIMessage, FunctionMessage, HumanMessage
from foldline.outputs.agent import AgentAction, AgentActionMessageLog, AgentFinish, AgentStep

ACTION = AgentAction("search", {"query": "foldline"}, "I should look it up.")
LOGGED = AgentActionMessageLog(
    tool="search", tool_input="foldline", log="look", message_log=[AIMessage("look")]
)


def test_actions_know_the_messages_that_led_to_them():
    assert ACTION.messages == [AIMessage("I should look it up.")]
    assert LOGGED.messages == [AIMessage("look")]
    assert AgentFinish({"output": "x"}, "done").messages == [AIMessage("done")]


def test_a_step_tells_the_model_what_came_of_it():
    assert AgentStep(action=ACTION, observation="found").messages == [HumanMessage("found")]
    assert AgentStep(action=LOGGED, observation={"a": "é"}).messages == [
        FunctionMessage(name="search", content='{"a": "é"}')
    ]
    assert AgentStep(action=LOGGED, observation={1}).messages[0].content == "{1}"
    assert AgentStep(action=LOGGED, observation="text").messages[0].content == "text"


def test_a_finish_shows_what_it_gives_back():
    assert repr(AgentFinish({"output": "x"}, "l")) == (
        "AgentFinish(return_values={'output': 'x'}, log='l')"
    )


@pytest.mark.parametrize(
    "value",
    [
        ACTION,
        LOGGED,
        AgentStep(action=LOGGED, observation=("a", {"lc": 1})),
        AgentFinish({"output": {"lc": 1}}, "done"),
    ],
)
def test_they_load_as_they_were_dumped(value):
    data = dumpd(value)

    assert data["id"][:2] == ["foldline", "agents"]
    assert load(data) == value
    assert type(load(data)) is type(value)
