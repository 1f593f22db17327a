"""Jumps of hooks: each counts as a step, and each is declared."""

from __future__ import annotations

import pytest

from foldline.agents import create_agent
from foldline.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    ToolCallLimitMiddleware,
    after_agent,
    before_agent,
    before_model,
    hook_config,
)
from foldline.exceptions import RecursionLimitError, UsageError
from foldline.messages import AIMessage
from foldline.testing import Call, ScriptedChatModel
from tests.agents.conftest import add

ADD = Call("add", {"a": 1, "b": 2})


def agent_with(*middleware, tools=()):
    model = ScriptedChatModel(script=["Hello"], is_cyclic=True)
    return create_agent(model, list(tools), middleware=list(middleware))


@pytest.mark.parametrize("hook", [before_model, before_agent])
def test_AH8_a_jump_to_tools_needs_an_answer_that_calls_one(call, hook):
    @hook(can_jump_to=["tools"])
    def skip(state, runtime):
        return {"jump_to": "tools"}

    with pytest.raises(
        UsageError, match=r'jumps to "tools", but the conversation has no AIMessage'
    ):
        call.invoke(agent_with(skip, tools=[add]), "Hi")


def test_AH8_a_hook_that_always_jumps_ends_at_the_recursion_limit(call):
    calls = []

    @before_model(can_jump_to=["model"])
    def again(state, runtime):
        calls.append(1)
        return {"jump_to": "model"}

    with pytest.raises(RecursionLimitError, match="25 steps"):
        call.invoke(agent_with(again), "Hi", {"recursion_limit": 25})
    assert len(calls) == 26


def test_AH8_a_stream_of_jumps_ends_at_the_recursion_limit(call):
    @before_model(can_jump_to=["model"])
    def again(state, runtime):
        return {"jump_to": "model"}

    with pytest.raises(RecursionLimitError):
        call.stream(agent_with(again), "Hi", {"recursion_limit": 25})


def test_AH8_a_hook_after_the_agent_that_jumps_to_the_end_ends_at_the_recursion_limit(call):
    @after_agent(can_jump_to=["end"])
    def again(state, runtime):
        return {"jump_to": "end"}

    with pytest.raises(RecursionLimitError):
        call.invoke(agent_with(again), "Hi", {"recursion_limit": 10})


def test_AH8_jumps_and_steps_share_the_limit(call):
    counts = {"jumps": 0}

    @before_model(can_jump_to=["model"])
    def sometimes(state, runtime):
        counts["jumps"] += 1
        return {"jump_to": "model"} if counts["jumps"] < 4 else None

    result = call.invoke(agent_with(sometimes), "Hi", {"recursion_limit": 4})

    assert result["messages"][-1].text == "Hello"
    counts["jumps"] = 0
    with pytest.raises(RecursionLimitError):
        call.invoke(agent_with(sometimes), "Hi", {"recursion_limit": 3})


def test_AH8_a_jump_that_is_not_declared_is_an_error_at_the_first_jump(call):
    calls = []

    @before_model
    def end(state, runtime):
        calls.append(1)
        return {"jump_to": "end"}

    with pytest.raises(
        UsageError, match=r"end\.before_model jumps to 'end'.*can_jump_to=\['end'\]"
    ):
        call.invoke(agent_with(end), "Hi")
    assert len(calls) == 1


def test_AH8_a_jump_to_another_step_than_the_declared_one_is_an_error(call):
    @before_agent(can_jump_to=["end"])
    def skip(state, runtime):
        return {"jump_to": "model"}

    with pytest.raises(UsageError, match=r"jumps to 'model'.*declares only 'end'"):
        call.invoke(agent_with(skip), "Hi")


def test_AH8_a_hook_of_a_class_declares_its_jumps_with_hook_config(call):
    class Stop(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state, runtime):
            return {"messages": [AIMessage("stop")], "jump_to": "end"}

    assert call.invoke(agent_with(Stop()), "Hi")["messages"][-1].text == "stop"


def test_AH8_a_declaration_of_the_sync_hook_holds_for_the_async_one(call):
    class Stop(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state, runtime):
            return {"messages": [AIMessage("stop")], "jump_to": "end"}

        async def abefore_model(self, state, runtime):
            return self.before_model(state, runtime)

    assert call.invoke(agent_with(Stop()), "Hi")["messages"][-1].text == "stop"


def test_AH8_a_decorator_reads_the_declaration_of_its_function(call):
    @before_model
    @hook_config(can_jump_to=["end"])
    def stop(state, runtime):
        return {"messages": [AIMessage("stop")], "jump_to": "end"}

    assert call.invoke(agent_with(stop), "Hi")["messages"][-1].text == "stop"


def test_AH8_a_subclass_of_a_middleware_keeps_its_declared_jumps(call):
    class Limit(ModelCallLimitMiddleware):
        def before_model(self, state, runtime):
            return super().before_model(state, runtime)

    model = ScriptedChatModel(script=[[ADD]], is_cyclic=True)
    agent = create_agent(model, [add], middleware=[Limit(run_limit=1)])

    assert "limit reached" in call.invoke(agent, "Hi")["messages"][-1].text


@pytest.mark.parametrize(
    "limit",
    [
        ModelCallLimitMiddleware(run_limit=1, exit_behavior="end"),
        ToolCallLimitMiddleware(run_limit=1, exit_behavior="end"),
    ],
    ids=["model", "tool"],
)
def test_AH8_the_limits_of_foldline_declare_their_jumps(call, limit):
    model = ScriptedChatModel(script=[[ADD]], is_cyclic=True)

    result = call.invoke(create_agent(model, [add], middleware=[limit]), "Hi")

    assert "limit reached" in result["messages"][-1].text


@pytest.mark.parametrize("places", [["mars"], "end", [3]])
def test_AH8_a_declaration_of_an_unknown_place_is_an_error(places):
    with pytest.raises(UsageError, match="can_jump_to"):
        hook_config(can_jump_to=places)
    with pytest.raises(UsageError, match="can_jump_to"):
        before_model(can_jump_to=places)
