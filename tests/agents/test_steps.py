"""After a person was asked nothing finished is repeated, in tools and in middleware; a fork does its own part anew."""

from __future__ import annotations

import pytest

from foldline.agents import Command, create_agent, interrupt
from foldline.agents.checkpoint import InMemorySaver, SqliteSaver
from foldline.agents.middleware import (
    AgentMiddleware,
    ToolRetryMiddleware,
    after_model,
    before_model,
)
from foldline.exceptions import StoreError, UsageError
from foldline.graph import START, MessagesState, RetryPolicy, StateGraph, ToolNode
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.workflows import step
from tests.agents.conftest import add

THREAD = {"configurable": {"thread_id": "t1"}}


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "agents.db")) as sqlite_saver:
            yield sqlite_saver


@pytest.fixture
def effects():
    return []


@pytest.fixture
def effect(effects):
    @step
    def do(text: str) -> str:
        effects.append(text)
        return f"{text} is done"

    return do


class Around(AgentMiddleware):
    """Asks a person after the model, and after each tool."""

    def __init__(self, asks):
        super().__init__()
        self.asks = asks

    def _judge(self, kind, result):
        if kind in self.asks and interrupt(f"{kind}: is this right?") == "no":
            raise ValueError(f"{kind} was refused")
        return result

    def wrap_model_call(self, request, handler):
        return self._judge("model", handler(request))

    async def awrap_model_call(self, request, handler):
        return self._judge("model", await handler(request))

    def wrap_tool_call(self, request, handler):
        return self._judge("tool", handler(request))

    async def awrap_tool_call(self, request, handler):
        return self._judge("tool", await handler(request))


@pytest.mark.parametrize("kind", ["before_model", "after_model"])
def test_steps_of_a_hook_are_not_repeated_after_a_question(call, saver, effects, effect, kind):
    def hook(state, runtime):
        effect(kind)
        interrupt("go on?")
        effect("later")

    decorate = {"before_model": before_model, "after_model": after_model}[kind]
    agent = create_agent(
        ScriptedChatModel(script=["Done."]), middleware=[decorate(hook)], checkpointer=saver
    )

    assert call.invoke(agent, "hi", THREAD)["__interrupt__"]
    state = call.invoke(agent, Command(resume="yes"), THREAD)

    assert state["messages"][-1].text == "Done."
    assert effects == [kind, "later"]


def test_the_model_is_not_asked_again_when_a_middleware_around_it_asked_a_person(call, saver):
    model = ScriptedChatModel(script=["First.", "Second."])
    agent = create_agent(model, middleware=[Around({"model"})], checkpointer=saver)

    assert call.invoke(agent, "hi", THREAD)["__interrupt__"][0].value == "model: is this right?"
    state = call.invoke(agent, Command(resume="yes"), THREAD)

    assert [message.text for message in state["messages"]] == ["hi", "First."]


def test_a_tool_is_not_run_again_when_a_middleware_around_it_asked_a_person(call, saver):
    amounts = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        amounts.append(amount)
        return f"paid {amount}"

    model = ScriptedChatModel(script=[[Call("pay", {"amount": 5})], "Done."])
    agent = create_agent(model, [pay], middleware=[Around({"tool"})], checkpointer=saver)

    assert call.invoke(agent, "pay", THREAD)["__interrupt__"]
    state = call.invoke(agent, Command(resume="yes"), THREAD)

    assert amounts == [5]
    assert [message.text for message in state["messages"]][-2:] == ["paid 5", "Done."]


def test_a_command_of_a_tool_comes_back_as_it_was(call, saver):
    runs = []

    @tool
    def move() -> Command:
        """Move."""
        runs.append(1)
        return Command(update={"messages": [ToolMessage("moved", tool_call_id="c1")]})

    model = ScriptedChatModel(script=[[Call("move", {}, id="c1")], "Done."])
    agent = create_agent(model, [move], middleware=[Around({"tool"})], checkpointer=saver)

    call.invoke(agent, "move", THREAD)
    state = call.invoke(agent, Command(resume="yes"), THREAD)

    assert runs == [1]
    assert [message.text for message in state["messages"]][-2:] == ["moved", "Done."]


def test_another_request_after_the_answer_is_another_call(call, saver):
    class Corrects(AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            handler(request)
            args = {"amount": interrupt("how much?")}
            return handler(request.override(tool_call={**request.tool_call, "args": args}))

        async def awrap_tool_call(self, request, handler):
            await handler(request)
            args = {"amount": interrupt("how much?")}
            return await handler(request.override(tool_call={**request.tool_call, "args": args}))

    amounts = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        amounts.append(amount)
        return f"paid {amount}"

    model = ScriptedChatModel(script=[[Call("pay", {"amount": 5})], "Done."])
    agent = create_agent(model, [pay], middleware=[Corrects()], checkpointer=saver)

    call.invoke(agent, "pay", THREAD)
    call.invoke(agent, Command(resume=7), THREAD)

    assert amounts == [5, 7]


def calling(name, args, answer):
    """A model that calls a tool, and answers when it has the result."""

    def turn(request):
        last = request.messages[-1]
        if last.type == "tool":
            return answer.format(last.text)
        return [Call(name, args)]

    return ScriptedChatModel(script=turn)


def asking_agent(effect, saver):
    @tool
    def work() -> str:
        """Work."""
        effect("before")
        answer = interrupt("go on?")
        effect("after")
        return answer

    return create_agent(calling("work", {}, "Done."), [work], checkpointer=saver)


def test_another_answer_on_a_fork_repeats_what_came_of_the_first_one_only(saver, effects, effect):
    agent = asking_agent(effect, saver)
    agent.invoke("work", THREAD)
    config = agent.get_state(THREAD).config

    agent.invoke(Command(resume="yes"), THREAD)
    state = agent.invoke(Command(resume="no"), config)

    assert effects == ["before", "after", "after"]
    assert [message.text for message in state["messages"]][-2:] == ["no", "Done."]


def test_a_fork_before_the_tool_runs_its_steps_anew(saver, effects, effect):
    agent = asking_agent(effect, saver)
    agent.invoke("work", THREAD)
    agent.invoke(Command(resume="yes"), THREAD)
    before_tools = next(
        snapshot
        for snapshot in agent.get_state_history(THREAD)
        if snapshot.next == ("tools",) and not snapshot.interrupts
    )

    result = agent.invoke(None, before_tools.config)
    assert result["__interrupt__"]
    state = agent.invoke(Command(resume="again"), THREAD)

    assert effects == ["before", "after", "before", "after"]
    assert [message.text for message in state["messages"]][-2:] == ["again", "Done."]


def test_a_sub_agent_on_a_fork_goes_on_with_the_answer_of_the_fork(saver):
    @tool
    def ask(question: str) -> str:
        """Ask a person."""
        return str(interrupt(question))

    inner = create_agent(calling("ask", {"question": "which?"}, "It is {}."), [ask], name="inner")

    @tool
    def delegate(task: str) -> str:
        """Delegate."""
        return str(inner.invoke(task)["messages"][-1].text)

    agent = create_agent(
        calling("delegate", {"task": "choose"}, "Done."), [delegate], checkpointer=saver
    )
    agent.invoke("go", THREAD)
    config = agent.get_state(THREAD).config

    first = agent.invoke(Command(resume="red"), THREAD)
    second = agent.invoke(Command(resume="blue"), config)

    assert first["messages"][-2].text == "It is red."
    assert second["messages"][-2].text == "It is blue."


class Full(InMemorySaver):
    """Has no room for the steps of a tool."""

    def append(self, thread_id, namespace, entries, *, after):
        if namespace.startswith("steps|"):
            raise StoreError("the disk is full: free some space")
        super().append(thread_id, namespace, entries, after=after)


@pytest.mark.parametrize("middleware", [[], [ToolRetryMiddleware(initial_delay=0)]])
def test_a_step_that_cannot_be_kept_ends_the_run_and_is_not_told_to_the_model(
    call, effects, effect, middleware
):
    @tool
    def work() -> str:
        """Work."""
        return effect("once")

    model = calling("work", {}, "Done.")
    agent = create_agent(model, [work], middleware=middleware, checkpointer=Full())

    with pytest.raises(StoreError, match="the disk is full"):
        call.invoke(agent, "work", THREAD)

    assert effects == ["once"]
    assert len(model.requests) == 1


def test_a_tool_node_raises_what_ends_the_run(call, effects, effect):
    @tool
    def work() -> str:
        """Work."""
        return effect("once")

    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([work], handle_tool_errors=True), retry_policy=RetryPolicy())
    builder.add_edge(START, "tools")
    graph = builder.compile(checkpointer=Full())
    call_message = AIMessage(
        "", tool_calls=[{"name": "work", "args": {}, "id": "c", "type": "tool_call"}]
    )

    with pytest.raises(StoreError, match="the disk is full"):
        call.invoke(graph, {"messages": [call_message]}, THREAD)

    assert effects == ["once"]


def test_the_thread_is_written_once_with_durability_exit(call, saver):
    writes = []
    append = saver.append

    def count(thread_id, namespace, entries, *, after):
        writes.append(len(entries))
        append(thread_id, namespace, entries, after=after)

    saver.append = count
    agent = create_agent(calling("add", {"a": 1, "b": 2}, "It is {}."), [add], checkpointer=saver)

    state = call.invoke(agent, "1 + 2?", THREAD, durability="exit")

    assert len(writes) == 1
    assert call.run(agent, "get_state", THREAD).values == state
    with pytest.raises(UsageError, match="durability='never'"):
        call.invoke(agent, "1 + 2?", THREAD, durability="never")


@pytest.mark.parametrize("way", ["update_state", "command", "beside the answer"])
def test_a_change_from_outside_repeats_no_finished_tool_and_closes_no_question(
    call, saver, effects, way
):
    @tool
    def quick() -> str:
        """Finish at once."""
        effects.append("quick")
        return "quick"

    @tool
    def ask() -> str:
        """Ask."""
        return str(interrupt("?"))

    def turn(request):
        if request.messages[-1].type == "tool":
            return " ".join(message.text for message in request.messages)
        return [Call("quick", {}, id="q"), Call("ask", {}, id="a")]

    agent = create_agent(ScriptedChatModel(script=turn), [quick, ask], checkpointer=saver)
    interrupts = call.invoke(agent, "go", THREAD)["__interrupt__"]
    note = {"messages": [HumanMessage("by the way", id="note")]}
    answer = Command(resume="yes")
    if way == "update_state":
        call.run(agent, "update_state", THREAD, note)
        assert list(call.run(agent, "get_state", THREAD).interrupts) == interrupts
    elif way == "command":
        assert call.invoke(agent, Command(update=note), THREAD)["__interrupt__"] == interrupts
    else:
        answer = Command(resume="yes", update=note)

    state = call.invoke(agent, answer, THREAD)

    assert effects == ["quick"]
    assert "__interrupt__" not in state
    assert {message.text for message in state["messages"]} >= {"by the way", "quick", "yes"}
    assert call.run(agent, "get_state", THREAD).values == state


def test_an_agent_is_not_sent_elsewhere(call, saver):
    agent = create_agent(ScriptedChatModel(script=["Hello."]), checkpointer=saver)

    with pytest.raises(UsageError, match="goto='model'"):
        call.invoke(agent, Command(goto="model"), THREAD)
