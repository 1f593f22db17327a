"""Middleware of LangChain 1.x: a list of things to do, tools chosen or played by a model, errors of tools."""

from __future__ import annotations

import pytest

from foldline.agents import create_agent
from foldline.agents.middleware import (
    AgentMiddleware,
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    ModelFallbackMiddleware,
    ModelRequest,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolErrorMiddleware,
    wrap_model_call,
)
from foldline.exceptions import UsageError
from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from tests.agents.conftest import add


def scripted(*turns):
    return ScriptedChatModel(script=list(turns))


@tool
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


def test_a_list_is_kept_in_the_state(call):
    todos = [{"content": "look", "status": "in_progress"}, {"content": "tell", "status": "pending"}]
    model = scripted([Call("write_todos", {"todos": todos}, id="c1")], "done")
    prompts = []

    @wrap_model_call
    def watch(request, handler):
        prompts.append(request.system_prompt)
        return handler(request)

    agent = create_agent(
        model, [], system_prompt="Be brief.", middleware=[TodoListMiddleware(), watch]
    )
    if call.mode == "async":
        agent = create_agent(model, [], middleware=[TodoListMiddleware()])

    state = call.invoke(agent, {"messages": "do it"})

    assert state["todos"] == todos
    assert state["messages"][2].text.startswith("Updated todo list to")
    assert all(prompt.startswith("Be brief.\n\nFor a task") for prompt in prompts)


def test_only_chosen_tools_are_offered(call):
    chooser = scripted('{"tools": ["fail", "add"]}')
    offered = []

    class Watch(AgentMiddleware):
        async def _around_model(self, request, handler, run):
            offered.append([tool.name for tool in request.tools])
            return await handler(request)

    @tool
    def wait() -> str:
        """Wait."""
        return "waited"

    selector = LLMToolSelectorMiddleware(model=chooser, max_tools=1, always_include=["wait"])
    agent = create_agent(scripted("hi"), [add, fail, wait], middleware=[selector, Watch()])

    call.invoke(agent, {"messages": "what is 1 + 1?"})

    assert offered == [["fail", "wait"]]


def test_a_choice_needs_a_question():
    selector = LLMToolSelectorMiddleware(model=scripted('{"tools": []}'))
    agent = create_agent(scripted("hi"), [add], middleware=[selector])

    with pytest.raises(UsageError, match="No user message found"):
        agent.invoke({"messages": [AIMessage("hello")]})


def test_a_model_plays_tools(call):
    emulator = LLMToolEmulator(tools=["fail"], model=scripted("it is sunny"))
    model = scripted([Call("fail", {"why": "x"}), Call("add", {"a": 1, "b": 2})], "done")

    state = call.invoke(create_agent(model, [add, fail], middleware=[emulator]), {"messages": "go"})

    answers = [message.text for message in state["messages"] if isinstance(message, ToolMessage)]
    assert answers == ["it is sunny", "3"]


@pytest.mark.parametrize(
    ("on_error", "answer"),
    [
        (None, "fail failed: ValueError: no milk"),
        (lambda error, request: f"sorry: {error}", "sorry: no milk"),
        (
            lambda error, request: ToolMessage("mine", tool_call_id=request.tool_call["id"]),
            "mine",
        ),
    ],
)
def test_the_model_is_told_of_an_error(call, on_error, answer):
    middleware = ToolErrorMiddleware(*([on_error] if on_error else []))
    model = scripted([Call("fail", {"why": "no milk"})], "done")

    state = call.invoke(create_agent(model, [fail], middleware=[middleware]), {"messages": "go"})

    assert state["messages"][2].text == answer
    assert state["messages"][-1].text == "done"


def test_an_error_may_be_left_to_the_agent(call):
    model = scripted([Call("fail", {"why": "no milk"})], "done")
    middleware = ToolErrorMiddleware(lambda error, request: None)

    state = call.invoke(create_agent(model, [fail], middleware=[middleware]), {"messages": "go"})

    plain = call.invoke(
        create_agent(scripted([Call("fail", {"why": "no milk"})], "done"), [fail]),
        {"messages": "go"},
    )
    assert state["messages"][2].text == plain["messages"][2].text


def test_a_request_takes_the_text_of_its_system_message():
    request = ModelRequest(model=None, messages=[HumanMessage("hi")], system_prompt="Be brief.")

    assert request.system_message == SystemMessage("Be brief.")
    assert request.override(tools=[add]).system_prompt == "Be brief."
    with pytest.raises(UsageError, match="not both"):
        ModelRequest(model=None, messages=[], system_prompt="a", system_message=SystemMessage("b"))
    with pytest.raises(TypeError, match="has no field colour"):
        ModelRequest(model=None, messages=[], colour="red")


def test_a_middleware_class_takes_types_in_brackets():
    class Mine(AgentMiddleware[dict, None]):
        pass

    assert Mine().name == "Mine"


@pytest.mark.parametrize("wrap", [
    lambda model: model.bind(stop=["x"]), lambda model: model.with_retry(), lambda model: model.with_config(tags=["a"]),
    lambda model: model.with_fallbacks([model]),
])  # fmt: skip
def test_middleware_takes_a_runnable_around_a_model(call, wrap):
    failing = ScriptedChatModel(script=[ValueError("down")] * 3)
    fallback = ModelFallbackMiddleware(wrap(scripted("from the fallback")))
    summary = SummarizationMiddleware(
        wrap(scripted("a summary")), trigger=("messages", 3), keep=("messages", 1)
    )
    agent = create_agent(failing, [], middleware=[summary, fallback])

    state = call.invoke(agent, {"messages": [("user", "a"), ("ai", "b"), ("user", "c")]})

    assert state["messages"][0].text.endswith("a summary")
    assert state["messages"][-1].text == "from the fallback"


def test_a_runnable_around_a_model_plays_tools(call):
    model = scripted([Call("add", {"a": 2, "b": 3})], "done")
    agent = create_agent(
        model, [add], middleware=[LLMToolEmulator(model=scripted("7").with_retry())]
    )

    assert call.invoke(agent, {"messages": "2+3?"})["messages"][2].text == "7"


def test_a_runnable_around_a_model_chooses_tools(call):
    chooser = scripted('{"tools": ["add"]}').with_config(tags=["chooser"])
    agent = create_agent(
        scripted("done"), [add, fail], middleware=[LLMToolSelectorMiddleware(model=chooser)]
    )

    assert call.invoke(agent, {"messages": "2+3?"})["messages"][-1].text == "done"
