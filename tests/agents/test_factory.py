"""`create_agent`: the loop as a caller sees it, sync and async."""

from __future__ import annotations

import asyncio
import operator
import time
from typing import Annotated

import pytest

from foldline.agents import (
    AgentExecutor,
    AgentState,
    Command,
    InjectedState,
    ToolRuntime,
    create_agent,
    create_tool_calling_agent,
)
from foldline.exceptions import (
    BudgetExceeded,
    MalformedStreamError,
    ModelAPIError,
    RecursionLimitError,
    UsageError,
)
from foldline.language_models import FakeMessagesListChatModel
from foldline.language_models._call.policies.usage import Limits, usage_scope
from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.prompts import ChatPromptTemplate
from foldline.testing import Call, Fail, Finish, ScriptedChatModel, Stall
from foldline.tools import tool
from tests.agents.conftest import add, fail

pytestmark = pytest.mark.timing

PROMPT = ChatPromptTemplate.from_messages(
    [("human", "{input}"), ("placeholder", "{agent_scratchpad}")]
)


def scripted(*turns, **kwargs):
    return ScriptedChatModel(script=list(turns), **kwargs)


def test_tools_are_called_until_there_is_an_answer(call):
    model = scripted([Call("add", {"a": 2, "b": 3})], "It is 5.")
    agent = create_agent(model, [add], system_prompt="You are good at sums.")

    state = call.invoke(agent, {"messages": [("user", "2 + 3?")]})

    assert [type(message) for message in state["messages"]] == [
        HumanMessage,
        AIMessage,
        ToolMessage,
        AIMessage,
    ]
    assert state["messages"][2].content == "5"
    assert state["messages"][-1].text == "It is 5."
    assert all(message.id for message in state["messages"])
    assert isinstance(model.requests[0].messages[0], SystemMessage)
    assert [tool["function"]["name"] for tool in model.requests[0].options["tools"]] == ["add"]


def test_an_agent_without_tools_is_one_model_call(call):
    assert call.invoke(create_agent(scripted("Hello")), "Hi")["messages"][-1].text == "Hello"


def test_batch_runs_each_input(call):
    agent = create_agent(
        ScriptedChatModel(script=lambda request: request.messages[-1].text.upper())
    )

    answers = call.batch(agent, [{"messages": "a"}, {"messages": "b"}])

    assert [answer["messages"][-1].text for answer in answers] == ["A", "B"]


def test_FU06_an_unknown_tool_is_told_to_the_model(call):
    model = scripted([Call("subtract", {"a": 1}, id="c1")], "sorry")

    state = call.invoke(create_agent(model, [add]), "?")

    reply = state["messages"][2]
    assert reply.status == "error"
    assert "no tool named 'subtract'" in reply.text
    assert "add" in reply.text
    assert reply.tool_call_id == "c1"


def test_arguments_that_do_not_fit_are_told_to_the_model(call):
    state = call.invoke(create_agent(scripted([Call("add", {"a": "x"})], "sorry"), [add]), "?")

    assert state["messages"][2].status == "error"
    assert "a: Input should be a valid integer" in state["messages"][2].text
    assert "b: Field required" in state["messages"][2].text


@pytest.mark.parametrize("raw", ['{"a": 1, "b"', "[1]", "null", '{"a": NaN, "b": 1}', "{} {}"])
def test_FU01_FU02_FU03_a_broken_call_never_runs_and_is_told_to_the_model(call, raw):
    arguments = []

    @tool
    def act(a: int = 0, b: int = 0) -> str:
        """Act."""
        arguments.append(a)
        return "done"

    model = scripted([Call("act", raw, id="c1")], "sorry")

    state = call.invoke(create_agent(model, [act]), "?")

    assert arguments == []
    assert state["messages"][2].status == "error"
    assert state["messages"][2].tool_call_id == "c1"
    assert "could not be read" in state["messages"][2].text


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_E5_calls_of_an_answer_that_was_cut_never_run(call, reason):
    runs = []

    @tool
    def act() -> str:
        """Act."""
        runs.append(1)
        return "done"

    model = scripted([Call("act", {}), Finish(reason)], "sorry")

    state = call.invoke(create_agent(model, [act]), "?")

    assert runs == []
    assert "was not run: the answer was cut off" in state["messages"][2].text


def test_FU09_two_calls_with_one_id_are_refused(call):
    calls = [{"name": "add", "args": {"a": n, "b": n}, "id": "x"} for n in (1, 2)]

    class RepeatedIdModel(FakeMessagesListChatModel):
        """A model that is careless with ids."""

    agent = create_agent(RepeatedIdModel(responses=[AIMessage("", tool_calls=calls)]), [add])

    with pytest.raises(MalformedStreamError, match="two tool calls with the id 'x'"):
        call.invoke(agent, "?")


def test_calls_without_ids_get_some(call):
    answer = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1, "b": 2}, "id": None}])
    state = call.invoke(create_agent(scripted(answer, "3"), [add]), "?")

    assert state["messages"][1].tool_calls[0]["id"] == state["messages"][2].tool_call_id
    assert state["messages"][2].content == "3"


def test_calls_without_ids_get_the_same_ones_in_their_blocks(call):
    call_ = {"name": "add", "args": {"a": 1, "b": 2}, "id": None}
    answer = AIMessage(
        [{"type": "text", "text": "So:"}, {"type": "tool_call", **call_}], tool_calls=[call_]
    )

    model = FakeMessagesListChatModel(responses=[answer, AIMessage("3")])
    state = call.invoke(create_agent(model, [add]), "?")

    call_message = state["messages"][1]
    assert (
        call_message.content[1]["id"]
        == call_message.tool_calls[0]["id"]
        == state["messages"][2].tool_call_id
    )


def test_FU10_a_tool_that_raises_is_told_to_the_model(call):
    state = call.invoke(
        create_agent(scripted([Call("fail", {"why": "no luck"})], "sorry"), [fail]), "?"
    )

    assert state["messages"][2].status == "error"
    assert "fail failed: ValueError: no luck" in state["messages"][2].text


def test_FU11_of_two_parallel_tools_one_failing_both_are_reported(call):
    turn = [Call("fail", {"why": "no"}), Call("add", {"a": 1, "b": 2})]
    state = call.invoke(create_agent(scripted(turn, "ok"), [add, fail]), "?")

    assert [message.status for message in state["messages"][2:4]] == ["error", "success"]


def test_FU10_a_tool_that_hangs_is_given_up_after_its_timeout(call):
    @tool
    def hang() -> str:
        """Hang."""
        time.sleep(0.6)
        return "late"

    hang.timeout = 0.1
    state = call.invoke(create_agent(scripted([Call("hang", {})], "sorry"), [hang]), "?")

    assert "took longer than its 0.1 s" in state["messages"][2].text


def test_FU10_a_tool_that_floods_is_cut_with_a_notice(call):
    @tool
    def flood() -> str:
        """Flood."""
        return "x" * 3_000_000

    state = call.invoke(create_agent(scripted([Call("flood", {})], "ok"), [flood]), "?")

    assert len(state["messages"][2].text) < 1_100_000


def test_FU11_a_model_that_loops_hits_a_typed_step_limit_with_its_history(call):
    model = scripted([Call("add", {"a": 1, "b": 1})], is_cyclic=True)
    agent = create_agent(model, [add])

    with pytest.raises(RecursionLimitError, match="took 6 steps") as excinfo:
        call.invoke(agent, "?", {"recursion_limit": 6})

    assert len(excinfo.value.messages) == 7
    assert len(model.requests) == 3


def test_a_token_limit_ends_the_run_with_its_history(call):
    usage = {"input_tokens": 50, "output_tokens": 10, "total_tokens": 60}
    model = scripted([Call("add", {"a": 1, "b": 1})], is_cyclic=True, usage=usage)
    agent = create_agent(model, [add], limits=Limits(total_tokens=100))

    with pytest.raises(BudgetExceeded) as excinfo:
        call.invoke(agent, "?")

    assert any(isinstance(message, ToolMessage) for message in excinfo.value.messages)


def test_a_scope_around_a_run_bounds_it_too(call):
    agent = create_agent(scripted([Call("add", {"a": 1, "b": 1})], is_cyclic=True), [add])

    with usage_scope(model_calls=2), pytest.raises(BudgetExceeded):
        call.invoke(agent, "?")


def test_a_time_limit_in_the_middle_of_parallel_tools_keeps_the_finished_ones(call):
    @tool
    def nap(seconds: float) -> str:
        """Sleep."""
        time.sleep(seconds)
        return "rested"

    turn = [Call("nap", {"seconds": 0.01}), Call("nap", {"seconds": 2.0})]
    agent = create_agent(scripted(turn, "ok"), [nap], limits=Limits(timeout=0.4))
    start = time.monotonic()

    with pytest.raises(BudgetExceeded, match="time of this run has run out") as excinfo:
        call.invoke(agent, "?")

    assert time.monotonic() - start < 1.8
    assert sorted(message.status for message in excinfo.value.messages[2:]) == ["error", "success"]


def test_a_model_that_fails_leaves_the_transcript_on_the_error(call):
    model = scripted(
        [Call("add", {"a": 1, "b": 1})], ["Well", Fail(ModelAPIError("down", is_retryable=False))]
    )

    with pytest.raises(ModelAPIError) as excinfo:
        call.invoke(create_agent(model, [add]), "?")

    assert [type(message) for message in excinfo.value.messages] == [
        HumanMessage,
        AIMessage,
        ToolMessage,
    ]


@tool
def nap(n: int) -> int:
    """Sleep."""
    time.sleep(0.1)
    return n


@tool
async def anap(n: int) -> int:
    """Sleep."""
    await asyncio.sleep(0.1)
    return n


def eight(name):
    return scripted([Call(name, {"n": n}) for n in range(8)], "ok")


def fastest(work, attempts=40):
    """Return the shortest time of some attempts, as soon as one is short enough: other programs use the machine too."""
    times = []
    while len(times) < attempts and min(times, default=1) > 0.15:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def test_eight_tools_that_sleep_100_ms_take_at_most_150_ms(call):
    def work():
        state = call.invoke(create_agent(eight("nap"), [nap]), "?")
        assert [message.content for message in state["messages"][2:10]] == [
            str(n) for n in range(8)
        ]

    assert fastest(work) <= 0.15


@pytest.mark.parametrize("sleeper", [nap, anap], ids=["blocking", "awaited"])
@pytest.mark.parametrize("kind", ["agent", "executor"])
def test_eight_tools_take_at_most_150_ms_in_an_async_run(kind, sleeper):
    def work():
        model = eight(sleeper.name)
        if kind == "agent":
            state = asyncio.run(create_agent(model, [sleeper]).ainvoke("?"))
            assert state["messages"][9].content == "7"
            return
        agent = create_tool_calling_agent(model, [sleeper], PROMPT)
        executor = AgentExecutor(agent=agent, tools=[sleeper], return_intermediate_steps=True)
        outputs = asyncio.run(executor.ainvoke({"input": "?"}))
        assert [output for _, output in outputs["intermediate_steps"]] == list(range(8))

    assert fastest(work) <= 0.15


def test_an_eager_tool_starts_while_the_message_still_streams(call):
    start_times = []

    @tool
    def look() -> str:
        """Look."""
        start_times.append(time.monotonic())
        return "seen"

    look.eager = True
    model = scripted([Call("look", {}), Stall(0.3), " and so on"], "ok")
    start = time.monotonic()

    state = call.invoke(create_agent(model, [look]), "?")

    assert start_times[0] - start < 0.25
    assert len(start_times) == 1
    assert state["messages"][2].content == "seen"


def test_what_an_eager_tool_gave_for_a_cut_answer_is_dropped(call):
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    look.eager = True
    model = scripted([Call("look", {}), Finish("length")], "ok")

    state = call.invoke(create_agent(model, [look]), "?")

    assert "was not run" in state["messages"][2].text


def test_a_tool_that_returns_direct_ends_the_run(call):
    @tool(return_direct=True)
    def answer() -> str:
        """Answer."""
        return "42"

    model = scripted([Call("answer", {})])

    assert call.invoke(create_agent(model, [answer]), "?")["messages"][-1].content == "42"


def test_a_pause_of_the_provider_goes_on(call):
    model = scripted(["Let me search", Finish("pause")], "Found it.")

    assert call.invoke(create_agent(model), "?")["messages"][-1].text == "Found it."


def test_an_answer_that_is_under_way_is_not_asked_for_again(call):
    model = scripted([Finish("pause")], "Another answer, and another bill.")

    last = call.invoke(create_agent(model), "?")["messages"][-1]
    assert (last.text, last.finish_reason) == ("", "pause")


class Shop(AgentState):
    basket: Annotated[list[str], operator.add]
    owner: str


def test_tools_read_and_write_the_state(call):
    @tool
    def put(item: str, runtime: ToolRuntime) -> Command:
        """Put an item into the basket."""
        return Command(
            update={
                "basket": [item],
                "messages": [ToolMessage("ok", tool_call_id=runtime.tool_call_id)],
            }
        )

    @tool
    def count(basket: Annotated[list, InjectedState("basket")]) -> int:
        """Count the items."""
        return len(basket)

    model = scripted(
        [Call("put", {"item": "tea"}), Call("put", {"item": "jam"})], [Call("count", {})], "two"
    )
    agent = create_agent(model, [put, count], state_schema=Shop)

    state = call.invoke(agent, {"messages": "?", "basket": ["bread"], "owner": "me"})

    assert state["basket"] == ["bread", "tea", "jam"]
    assert state["owner"] == "me"
    assert state["messages"][-2].content == "3"


def test_an_input_key_nobody_declared_is_an_error(call):
    with pytest.raises(UsageError, match="'basket', which is not a key of the state"):
        call.invoke(create_agent(scripted("x")), {"messages": "?", "basket": []})


def test_the_context_of_a_call_reaches_the_tools(call):
    @tool
    def who(runtime: ToolRuntime) -> str:
        """Say who asks."""
        return runtime.context["user"]

    agent = create_agent(scripted([Call("who", {})], "ok"), [who])

    assert call.invoke(agent, "?", context={"user": "ada"})["messages"][2].content == "ada"


def test_a_prompt_may_stand_before_an_agent(call):
    chain = PROMPT | create_agent(scripted("Hello"))

    assert call.invoke(chain, {"input": "Hi"})["messages"][-1].text == "Hello"


def test_a_given_conversation_with_open_calls_is_closed_where_they_are(call):
    """No provider takes a call without its result."""
    calls = [{"name": "add", "args": {"a": 1, "b": 1}, "id": id} for id in ("c1", "c2")]
    result = ToolMessage("2", tool_call_id="c1")
    messages = [HumanMessage("?"), AIMessage("", tool_calls=calls), result, HumanMessage("well?")]

    state = call.invoke(create_agent(scripted("ok"), [add]), {"messages": messages})

    types = [message.type for message in state["messages"]]
    assert types == ["human", "ai", "tool", "tool", "human", "ai"]
    assert state["messages"][3].tool_call_id == "c2"
    assert "went on without it" in state["messages"][3].text


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"model": 3}, "needs a chat model or its name"),
        ({"tools": [3]}, "a tool is a function"),
        ({"middleware": [str]}, "pass an instance"),
        ({"checkpointer": "memory"}, "checkpointer must be a saver"),
        ({"tools": [add, add]}, "two tools are named 'add'"),
    ],
)
def test_wrong_arguments_say_what_to_write(arguments, match):
    with pytest.raises(UsageError, match=match):
        create_agent(**{"model": scripted("x"), **arguments})


def test_no_message_and_wrong_inputs_are_errors(call):
    agent = create_agent(scripted("x"))

    for value in ({}, {"messages": []}, 3):
        with pytest.raises(UsageError):
            call.invoke(agent, value)
