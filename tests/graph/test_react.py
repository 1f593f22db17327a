"""`create_react_agent`: tasks per tool call, models and prompts that are functions, and its states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import BaseModel

from foldline.agents import InjectedState
from foldline.exceptions import BlockingCallError, UsageError
from foldline.graph import InMemoryStore, Runtime, create_react_agent, interrupt
from foldline.graph.react import AgentState, AgentStatePydantic
from foldline.messages import HumanMessage, SystemMessage
from foldline.prompts import ChatPromptTemplate
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from tests.graph.lines import answer

INPUT = {"messages": [HumanMessage("hi")]}


class Factor(AgentStatePydantic):
    factor: int = 3


def scripted(*turns):
    return ScriptedChatModel(script=list(turns))


def texts(state):
    return [message.text for message in state["messages"]]


@pytest.mark.parametrize(("version", "count"), [("v2", 1), ("v1", 2)])
def test_G42_a_finished_tool_is_not_repeated_when_another_asks(call, saver, thread, version, count):
    effects = []

    @tool
    def get() -> str:
        """Get."""
        effects.append("get")
        return "sun"

    @tool
    def ask() -> str:
        """Ask."""
        effects.append("ask")
        return interrupt("where?")

    model = scripted([Call("get", {}), Call("ask", {})], "done")
    agent = create_react_agent(model, [get, ask], checkpointer=saver, version=version)

    call.invoke(agent, INPUT, thread)
    state = call.invoke(agent, answer("Oslo"), thread)

    assert texts(state) == ["hi", "", "sun", "Oslo", "done"]
    assert (effects.count("ask"), effects.count("get")) == (2, count)


def test_G42_a_tool_that_failed_is_repeated_and_the_finished_one_is_not(call, saver, thread):
    effects = []

    @tool
    def get() -> str:
        """Get."""
        effects.append("get")
        return "sun"

    @tool
    def pay() -> str:
        """Pay."""
        effects.append("pay")
        if effects.count("pay") == 1:
            raise UsageError("not yet")
        return "paid"

    agent = create_react_agent(
        scripted([Call("get", {}), Call("pay", {})], "done"), [get, pay], checkpointer=saver
    )
    with pytest.raises(UsageError):
        call.invoke(agent, INPUT, thread)

    state = call.invoke(agent, None, thread)

    assert texts(state)[-1] == "done"
    assert (effects.count("get"), effects.count("pay")) == (1, 2)


def test_G42_the_tasks_of_calls_are_given_the_state(call):
    class State(AgentState):
        factor: int

    @tool
    def double(number: int, factor: Annotated[int, InjectedState("factor")]) -> int:
        """Multiply."""
        return number * factor

    model = scripted([Call("double", {"number": 2}), Call("double", {"number": 3})], "done")
    agent = create_react_agent(model, [double], state_schema=State)

    state = call.invoke(agent, {**INPUT, "factor": 5})

    assert texts(state)[2:4] == ["10", "15"]


def test_G42_a_pydantic_state_reaches_prompt_and_tools(call, saver, thread):
    @tool
    def double(number: int, state: Annotated[Factor, InjectedState]) -> int:
        """Multiply."""
        return number * state.factor

    seen = []

    def prompt(state: Factor):
        seen.append(type(state))
        return state.messages

    model = scripted([Call("double", {"number": 2})], "done")
    agent = create_react_agent(
        model, [double], state_schema=Factor, prompt=prompt, checkpointer=saver
    )

    state = call.invoke(agent, INPUT, thread)

    assert (texts(state)[2], seen) == ("6", [Factor, Factor])


@dataclass
class Person:
    model: str


def test_G42_a_function_chooses_the_model_by_state_and_context(call):
    models = {"a": scripted("from a"), "b": scripted("from b")}

    def choose(state, runtime: Runtime[Person]):
        assert texts(state) == ["hi"]
        return models[runtime.context.model]

    agent = create_react_agent(choose, [], context_schema=Person)

    state = call.invoke(agent, INPUT, context=Person("b"))

    assert texts(state)[-1] == "from b"


def test_G42_an_async_function_chooses_the_model_of_async_runs(call):
    async def choose(state, runtime):
        return scripted("chosen")

    agent = create_react_agent(choose, [])

    if call.is_async:
        assert texts(call.invoke(agent, INPUT))[-1] == "chosen"
    else:
        with pytest.raises(BlockingCallError):
            call.invoke(agent, INPUT)


def test_G42_a_function_that_chooses_no_model_is_named(call):
    agent = create_react_agent(lambda state, runtime: 7, [])

    with pytest.raises(UsageError, match="must return a chat model"):
        call.invoke(agent, INPUT)


def echo_system(model):
    return [message.text for message in model.requests[-1].messages]


@pytest.mark.parametrize(
    "prompt",
    [
        "be brief",
        SystemMessage("be brief"),
        lambda state: [SystemMessage("be brief"), *state["messages"]],
        lambda state, config: SystemMessage("be brief") + state["messages"],
        ChatPromptTemplate.from_messages([("system", "be brief"), ("placeholder", "{messages}")]),
    ],
)
def test_G42_a_prompt_is_a_text_a_message_a_function_or_a_runnable_of_the_state(call, prompt):
    model = scripted("ok")

    call.invoke(create_react_agent(model, [], prompt=prompt), INPUT)

    assert echo_system(model) == ["be brief", "hi"]


def test_G42_a_prompt_function_may_ask_for_config_and_store(call):
    store, model = InMemoryStore(), scripted("ok")
    store.put(("users", "1"), "name", {"text": "Ann"})

    def prompt(state, config, *, store):
        user = config["configurable"]["user_id"]
        name = store.get(("users", user), "name").value["text"]
        return [SystemMessage(name), *state["messages"]]

    agent = create_react_agent(model, [], prompt=prompt, store=store)
    call.invoke(agent, INPUT, {"configurable": {"user_id": "1"}})

    assert echo_system(model) == ["Ann", "hi"]


@pytest.mark.parametrize("schema", [None, AgentStatePydantic])
def test_G42_a_hook_may_give_the_model_other_messages_for_one_call(call, saver, thread, schema):
    model = scripted("ok", "ok")
    agent = create_react_agent(
        model,
        [],
        pre_model_hook=lambda state: {"llm_input_messages": [HumanMessage("short")]},
        state_schema=schema,
        checkpointer=saver,
    )

    state = call.invoke(agent, INPUT, thread)

    assert echo_system(model) == ["short"]
    assert texts(state) == ["hi", "ok"]
    assert set(call.run(agent, "get_state", thread).values) <= {"messages"}


def test_G42_the_result_of_a_direct_tool_ends_the_run_though_other_tasks_ran(call):
    @tool(return_direct=True)
    def final() -> str:
        """End."""
        return "the end"

    @tool
    def other() -> str:
        """Other."""
        return "other"

    agent = create_react_agent(
        scripted([Call("final", {}), Call("other", {})], "no"), [final, other]
    )

    assert texts(call.invoke(agent, INPUT)) == ["hi", "", "the end", "other"]


def test_G42_the_structured_answer_is_of_the_model_that_the_function_chooses(call):
    class Fact(BaseModel):
        number: int

    model = scripted("thinking", [Call("Fact", {"number": 7})])
    agent = create_react_agent(lambda state, runtime: model, [], response_format=Fact)

    assert call.invoke(agent, INPUT)["structured_response"] == Fact(number=7)


def test_G42_an_unknown_version_is_refused():
    with pytest.raises(UsageError, match="version"):
        create_react_agent(scripted("ok"), [], version="v3")
