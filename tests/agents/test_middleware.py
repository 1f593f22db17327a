"""Middleware: the hooks in all their forms, and those that come with foldline."""

from __future__ import annotations

import asyncio
from typing import NotRequired

import pytest

from foldline.agents import AgentState, create_agent
from foldline.agents.checkpoint import InMemorySaver
from foldline.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitExceededError,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelResponse,
    ModelRetryMiddleware,
    PIIDetectionError,
    PIIMiddleware,
    RedactionRule,
    ToolCallLimitExceededError,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
    after_model,
    before_model,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from foldline.exceptions import BlockingCallError, ModelAPIError, UsageError
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from tests.agents.conftest import add

THREAD = {"configurable": {"thread_id": "t1"}}
ADD = Call("add", {"a": 1, "b": 1})


def scripted(*turns, **kwargs):
    return ScriptedChatModel(script=list(turns), **kwargs)


class Journal(AgentMiddleware):
    def __init__(self, label: str, lines: list[str]) -> None:
        self.label, self.lines = label, lines

    @property
    def name(self):
        return self.label

    def before_agent(self, state, runtime):
        self.lines.append(f"{self.label} before agent")

    def before_model(self, state, runtime):
        self.lines.append(f"{self.label} before model")

    def after_model(self, state, runtime):
        self.lines.append(f"{self.label} after model")

    def after_agent(self, state, runtime):
        self.lines.append(f"{self.label} after agent")

    def wrap_model_call(self, request, handler):
        self.lines.append(f"{self.label} asks")
        response = handler(request)
        self.lines.append(f"{self.label} heard")
        return response

    def wrap_tool_call(self, request, handler):
        self.lines.append(f"{self.label} {request.tool_call['name']}")
        return handler(request)


def test_hooks_run_in_order_and_wraps_nest(call):
    lines: list[str] = []
    parts = [Journal("A", lines), Journal("B", lines)]

    call.invoke(create_agent(scripted([ADD], "2"), [add], middleware=parts), "?")

    turn = [
        "A before model",
        "B before model",
        "A asks",
        "B asks",
        "B heard",
        "A heard",
        "B after model",
        "A after model",
    ]
    assert lines == [
        "A before agent", "B before agent", *turn, "A add", "B add", *turn, "B after agent", "A after agent",
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["updates", "messages", "events"])
def test_middleware_works_the_same_while_streaming(call, mode):
    lines: list[str] = []
    agent = create_agent(scripted([ADD], "It is 2"), [add], middleware=[Journal("A", lines)])

    pieces = call.stream(agent, "?", stream_mode=mode)

    assert lines.count("A asks") == lines.count("A heard") == 2
    assert lines[-1] == "A after agent"
    assert pieces


def test_async_hooks_are_awaited_and_refused_in_a_blocking_call(call):
    class Slow(AgentMiddleware):
        async def abefore_model(self, state, runtime):
            await asyncio.sleep(0)
            return {"messages": [HumanMessage("and be brief")]}

        async def awrap_model_call(self, request, handler):
            return await handler(request)

    agent = create_agent(scripted("ok"), middleware=[Slow()])

    if not call.is_async:
        with pytest.raises(BlockingCallError):
            call.invoke(agent, "?")
    else:
        assert len(call.invoke(agent, "?")["messages"]) == 3


def test_a_hook_may_update_the_state_and_jump(call):
    class CountState(AgentState):
        count: NotRequired[int]

    @before_model(state_schema=CountState)
    def count(state, runtime):
        return {"count": state.get("count", 0) + 1}

    @after_model(can_jump_to=["end"])
    def enough(state, runtime):
        if state["count"] == 2:
            return {"messages": [AIMessage("enough")], "jump_to": "end"}
        return None

    state = call.invoke(
        create_agent(scripted([ADD], [ADD], "x"), [add], middleware=[count, enough]), "?"
    )

    assert state["count"] == 2
    assert state["messages"][-1].text == "enough"


def test_what_a_hook_returns_is_checked(call):
    failing_agent = create_agent(scripted("x"), middleware=[before_model(lambda state, runtime: 3)])
    unknown = create_agent(
        scripted("x"), middleware=[before_model(lambda state, runtime: {"colour": 3})]
    )
    jumping_agent = create_agent(
        scripted("x"), middleware=[before_model(lambda state, runtime: {"jump_to": "mars"})]
    )

    for agent, match in (
        (failing_agent, "must return a dict"),
        (unknown, "'colour'"),
        (jumping_agent, "jumps to 'mars'"),
    ):
        with pytest.raises(UsageError, match=match):
            call.invoke(agent, "?")


def test_a_prompt_and_a_model_may_be_chosen_for_each_call(call):
    other = scripted("from the other")

    @dynamic_prompt
    def prompt(request):
        return f"You have {len(request.messages)} messages."

    @wrap_model_call
    def switch(request, handler):
        return handler(request.override(model=other, tools=[]))

    agent = create_agent(scripted("x"), [add], middleware=[prompt, switch])

    assert call.invoke(agent, "?")["messages"][-1].text == "from the other"
    assert other.requests[0].messages[0].text == "You have 1 messages."
    assert "tools" not in other.requests[0].options


def test_a_tool_call_may_be_answered_without_the_tool(call):
    @wrap_tool_call
    def cached(request, handler):
        return ToolMessage("from the cache", tool_call_id=request.tool_call["id"])

    state = call.invoke(create_agent(scripted([ADD], "ok"), [add], middleware=[cached]), "?")

    assert state["messages"][2].text == "from the cache"


def test_a_wrap_that_forgets_to_answer_is_told(call):
    agent = create_agent(scripted("x"), middleware=[wrap_model_call(lambda request, handler: None)])

    with pytest.raises(UsageError, match="must return a ModelResponse"):
        call.invoke(agent, "?")


def test_the_model_is_asked_again_and_then_the_failure_is_said_or_raised(call):
    down = ModelAPIError("down")
    patient = ModelRetryMiddleware(max_retries=2, initial_delay=0)
    model = scripted(down, down, "back", retry_on_error=False)

    assert (
        call.invoke(create_agent(model, middleware=[patient]), "?")["messages"][-1].text == "back"
    )
    model = scripted(down, is_cyclic=True, retry_on_error=False)
    text = call.invoke(create_agent(model, middleware=[patient]), "?")["messages"][-1].text
    assert text == "the model failed after 3 attempts: ModelAPIError: scripted:scripted: down"
    strict = ModelRetryMiddleware(max_retries=1, initial_delay=0, on_failure="error")
    with pytest.raises(ModelAPIError):
        call.invoke(create_agent(model, middleware=[strict]), "?")


def test_a_tool_is_called_again_and_then_the_failure_is_told(call):
    tries = []

    @tool
    def shaky(ok_at: int) -> str:
        """Work sometimes."""
        tries.append(1)
        if len(tries) < ok_at:
            raise OSError("flaky")
        return "worked"

    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0, tools=["shaky"])
    agent = create_agent(
        scripted([Call("shaky", {"ok_at": 3})], [Call("shaky", {"ok_at": 99})], "ok"),
        [shaky],
        middleware=[retry],
    )

    state = call.invoke(agent, "?")

    assert [state["messages"][2].text, state["messages"][4].status] == ["worked", "error"]
    assert "failed after 3 attempts" in state["messages"][4].text
    assert len(tries) == 6


def test_another_model_stands_in(call):
    model = scripted(ModelAPIError("down"), retry_on_error=False)
    agent = create_agent(model, middleware=[ModelFallbackMiddleware(scripted("from the second"))])

    assert call.invoke(agent, "?")["messages"][-1].text == "from the second"


def test_model_calls_are_limited_per_run_and_thread(call):
    def agent(**limits):
        return create_agent(
            scripted([ADD], is_cyclic=True), [add], middleware=[ModelCallLimitMiddleware(**limits)],
            checkpointer=InMemorySaver(),
        )  # fmt: skip

    state = call.invoke(agent(run_limit=2), "?", THREAD)
    assert state["messages"][-1].text == "Model call limit reached: 2 of 2 in this run."
    assert "run_model_call_count" not in state
    with pytest.raises(ModelCallLimitExceededError) as excinfo:
        call.invoke(agent(thread_limit=1, exit_behavior="error"), "?", THREAD)
    assert excinfo.value.messages
    twice = agent(run_limit=1, thread_limit=2)
    call.invoke(twice, "?", THREAD)
    assert "1 of 1 in this run" in call.invoke(twice, "?", THREAD)["messages"][-1].text
    assert "2 of 2 in this thread" in call.invoke(twice, "?", THREAD)["messages"][-1].text


def test_tool_calls_are_limited_and_the_rest_told_ended_or_raised(call):
    def agent(exit_behavior):
        limit = ToolCallLimitMiddleware(tool_name="add", run_limit=1, exit_behavior=exit_behavior)
        return create_agent(scripted([ADD, ADD], "ok"), [add], middleware=[limit])

    state = call.invoke(agent("continue"), "?")
    assert sorted(message.status for message in state["messages"][2:4]) == ["error", "success"]
    assert state["messages"][-1].text == "ok"
    end_state = call.invoke(agent("end"), "?")
    assert end_state["messages"][-1].text == "Tool call limit reached for 'add'."
    with pytest.raises(ToolCallLimitExceededError):
        call.invoke(agent("error"), "?")
    with pytest.raises(UsageError):
        ToolCallLimitMiddleware()


@pytest.mark.parametrize(
    ("kind", "strategy", "text", "clean"),
    [
        ("email", "redact", "write to ada@example.com now", "write to [REDACTED_EMAIL] now"),
        ("email", "hash", "ada@example.com", "<email_hash:b5fc85e5>"),
        ("credit_card", "mask", "4111 1111 1111 1111", "****1111"),
        ("credit_card", "redact", "1234 5678 1234 5678", "1234 5678 1234 5678"),
        ("ip", "redact", "from 10.0.0.1 and 999.1.1.1", "from [REDACTED_IP] and 999.1.1.1"),
        ("mac_address", "redact", "at 00:1B:44:11:3A:B7", "at [REDACTED_MAC_ADDRESS]"),
        ("url", "redact", "see https://example.com/x?y=1 ok", "see [REDACTED_URL] ok"),
    ],
)
def test_personal_data_is_replaced(kind, strategy, text, clean):
    assert RedactionRule(kind, strategy).apply(text) == clean


def test_personal_data_never_reaches_the_model_or_the_answer(call):
    model = scripted([Call("lookup", {})], "mail bob@example.com")

    @tool
    def lookup() -> str:
        """Look up."""
        return "carol@example.com"

    guard = PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True)
    state = call.invoke(create_agent(model, [lookup], middleware=[guard]), "I am ada@example.com")

    assert "@" not in "".join(message.text for message in state["messages"])
    assert all(
        "@" not in message.text for request in model.requests for message in request.messages
    )


def test_personal_data_may_be_refused_without_being_repeated(call):
    agent = create_agent(
        scripted("x"), middleware=[PIIMiddleware("key", detector=r"sk-\w+", strategy="block")]
    )

    with pytest.raises(PIIDetectionError) as excinfo:
        call.invoke(agent, "my key is sk-123")
    assert "sk-123" not in str(excinfo.value)
    with pytest.raises(UsageError, match="has detectors for"):
        PIIMiddleware("shoe size")


def test_a_tool_that_needs_approval_never_starts_eagerly(call):
    runs = []

    @tool
    def act() -> str:
        """Act."""
        runs.append(1)
        return "done"

    act.eager = True
    agent = create_agent(
        scripted([Call("act", {})]), [act], middleware=[HumanInTheLoopMiddleware({"act": True})],
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    call.invoke(agent, "?", THREAD)

    assert runs == []


@pytest.mark.parametrize(
    "middleware",
    [
        HumanInTheLoopMiddleware({"ad": True}),
        HumanInTheLoopMiddleware({"ad": {"allowed_decisions": ["approve"]}}),
        ToolCallLimitMiddleware(tool_name="ad", run_limit=1),
        ToolRetryMiddleware(tools=["ad"]),
    ],
    ids=["approval", "approval of some", "limit", "retry"],
)
def test_F_Y15_middleware_about_a_tool_that_does_not_exist_is_refused(middleware):
    with pytest.raises(
        UsageError, match=r"'ad', which .* not have .did you mean 'add'.*; its tools: add"
    ):
        create_agent(scripted(), [add], middleware=[middleware])


def test_F_Y15_tools_of_middleware_and_plain_declarations_may_be_named():
    class Brings(AgentMiddleware):
        tools = (add,)

    declaration = {"type": "function", "function": {"name": "search", "parameters": {}}}
    approval = HumanInTheLoopMiddleware({"add": True, "search": True, "other": False})

    agent = create_agent(scripted(AIMessage("hi")), [declaration], middleware=[Brings(), approval])

    assert agent.invoke({"messages": ["hi"]})["messages"][-1].content == "hi"


def test_middleware_brings_tools_and_two_of_one_name_are_refused(call):
    class Brings(AgentMiddleware):
        tools = (add,)

    assert (
        call.invoke(create_agent(scripted([ADD], "2"), middleware=[Brings()]), "?")["messages"][
            2
        ].text
        == "2"
    )
    with pytest.raises(UsageError, match="two middleware are named 'Brings'"):
        create_agent(scripted("x"), middleware=[Brings(), Brings()])


def test_the_public_methods_of_a_middleware_can_be_called_by_a_subclass(call):
    class UpperCaseRetry(ModelRetryMiddleware):
        def wrap_model_call(self, request, handler):
            response = super().wrap_model_call(request, handler)
            return ModelResponse([AIMessage(response.message.text.upper())])

    agent = create_agent(
        scripted(ModelAPIError("down"), "back", retry_on_error=False),
        middleware=[UpperCaseRetry(initial_delay=0)],
    )

    assert call.invoke(agent, "?")["messages"][-1].text == "BACK"
