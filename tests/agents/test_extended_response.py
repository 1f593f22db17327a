"""A middleware around the model may change the state beside the answer: `ExtendedModelResponse`."""

from __future__ import annotations

import operator
from typing import Annotated, NotRequired

import pytest

from foldline.agents import AgentState, create_agent
from foldline.agents.middleware import (
    AgentMiddleware,
    ExtendedModelResponse,
    InputAgentState,
    ModelCallResult,
    OutputAgentState,
    wrap_model_call,
)
from foldline.exceptions import UsageError
from foldline.messages import HumanMessage
from foldline.testing import ScriptedChatModel
from foldline.workflows import Command


class State(AgentState):
    seen: NotRequired[Annotated[list[str], operator.add]]
    last: NotRequired[str]


class Note(AgentMiddleware):
    """Notes its name in the state after each answer."""

    state_schema = State

    def __init__(self, label, **command):
        self.label = label
        self.command = command

    @property
    def name(self):
        return self.label

    def wrap_model_call(self, request, handler):
        return self._noted(handler(request))

    async def awrap_model_call(self, request, handler):
        return self._noted(await handler(request))

    def _noted(self, response):
        update = {"seen": [self.label], "last": self.label}
        return ExtendedModelResponse(response, Command(update=update, **self.command))


def agent(*middleware, script=("hi",)):
    return create_agent(ScriptedChatModel(script=list(script)), [], middleware=middleware)


def test_the_command_of_a_middleware_changes_the_state(call):
    state = call.invoke(agent(Note("outer"), Note("inner")), {"messages": [("user", "hello")]})

    assert state["messages"][-1].text == "hi"
    assert state["seen"] == ["inner", "outer"]
    assert state["last"] == "outer"


def test_messages_of_a_command_come_after_the_answer(call):
    class Add(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return ExtendedModelResponse(
                handler(request), Command(update={"messages": [HumanMessage("more")]})
            )

        async def awrap_model_call(self, request, handler):
            response = await handler(request)
            return ExtendedModelResponse(response, Command(update={"messages": [("user", "more")]}))

    state = call.invoke(agent(Add()), {"messages": [("user", "hello")]})

    assert [message.content for message in state["messages"]] == ["hello", "hi", "more"]


def test_only_the_last_try_counts(call):
    class RepeatingMiddleware(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            handler(request)
            return handler(request)

        async def awrap_model_call(self, request, handler):
            await handler(request)
            return await handler(request)

    twice = agent(RepeatingMiddleware(), Note("inner"), script=("one", "two"))
    state = call.invoke(twice, {"messages": [("user", "hello")]})

    assert state["seen"] == ["inner"]
    assert state["messages"][-1].text == "two"


def test_a_command_here_goes_nowhere(call):
    with pytest.raises(UsageError, match="goto"):
        call.invoke(agent(Note("lost", goto="tools")), {"messages": [("user", "hello")]})


def test_the_types_of_langchain_have_a_home():
    @wrap_model_call
    def pass_on(request, handler) -> ModelCallResult:
        return handler(request)

    assert pass_on.name == "pass_on"
    assert set(InputAgentState.__annotations__) == {"messages"}
    assert set(OutputAgentState.__annotations__) == {"messages", "structured_response"}
