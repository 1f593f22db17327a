"""A model that writes calls which cannot be parsed gets an error message a few times, then the agent ends."""

from __future__ import annotations

from foldline.agents import create_agent
from foldline.language_models import GenericFakeChatModel
from foldline.messages import AIMessage
from foldline.tools import tool


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


@tool
def add(a: int) -> int:
    """Add."""
    return a


def invalid(number):
    call = {"name": "add", "args": "{bad", "id": f"c{number}", "error": "no JSON"}
    return AIMessage("", id=f"m{number}", invalid_tool_calls=[call])


def valid(number):
    call = {"name": "add", "args": {"a": 1}, "id": f"c{number}"}
    return AIMessage("", id=f"m{number}", tool_calls=[call])


def run(call, *messages):
    agent = create_agent(Model(messages=iter(messages)), [add])
    return call.invoke(agent, {"messages": [("user", "hi")]})["messages"]


def test_an_agent_ends_after_five_answers_that_cannot_be_read(call):
    messages = run(call, *map(invalid, range(100)))

    assert [message.type for message in messages] == ["human", *["ai", "tool"] * 5]
    assert messages[-1].status == "error"


def test_a_call_that_can_be_read_begins_the_count_anew(call):
    turns = [
        *map(invalid, range(4)),
        valid(4),
        *map(invalid, range(5, 9)),
        AIMessage("done", id="end"),
    ]

    assert run(call, *turns)[-1].text == "done"
