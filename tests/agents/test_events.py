"""One event stream for the whole run, views of it, traces, the drawing; cancelling and closing."""

from __future__ import annotations

import asyncio
import json
import time
import types
import typing

import langchain_protocol
import pytest
import typing_extensions
from pydantic import TypeAdapter

from foldline.agents import Interrupt, ToolRuntime, create_agent, interrupt
from foldline.agents.checkpoint import InMemorySaver
from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import ModelAPIError, UsageError
from foldline.messages import AIMessage, AIMessageChunk, ToolMessage
from foldline.runnables import RunnableLambda
from foldline.testing import Call, Fail, ScriptedChatModel, Stall
from foldline.tools import tool
from tests.agents.conftest import add, fail

pytestmark = pytest.mark.timing

THREAD = {"configurable": {"thread_id": "t1"}}
SHAPES = {
    "lifecycle": langchain_protocol.LifecycleData,
    "messages": langchain_protocol.MessagesData,
    "tools": langchain_protocol.ToolsData,
    "input.requested": langchain_protocol.InputRequestedData,
    "updates": langchain_protocol.UpdatesData,
    "checkpoints": langchain_protocol.Checkpoint,
    "custom": langchain_protocol.CustomData,
    "values": dict[str, typing.Any],
}


def scripted(*turns, **kwargs):
    return ScriptedChatModel(script=list(turns), **kwargs)


def is_shaped(value, shape) -> bool:
    """Whether a value has the keys and literals of a TypedDict or of one of a union; unknown keys may be there."""
    if typing.get_origin(shape) in (typing.Union, types.UnionType):
        return any(is_shaped(value, option) for option in typing.get_args(shape))
    if not typing.is_typeddict(shape) and not hasattr(shape, "__required_keys__"):
        return True
    hints = typing_extensions.get_type_hints(
        shape, vars(langchain_protocol.protocol), include_extras=True
    )
    if not isinstance(value, dict):
        return False
    for key, hint in hints.items():
        is_optional = typing_extensions.get_origin(hint) is typing_extensions.NotRequired
        if key not in value and not is_optional:
            return False
        if (
            key in value
            and typing.get_origin(hint) is typing.Literal
            and value[key] not in typing.get_args(hint)
        ):
            return False
    return True


def events(call, agent, value, config=None):
    return call.stream(agent, value, config, stream_mode="events")


def test_the_events_of_a_run_have_the_shapes_of_the_published_protocol(call):
    @tool
    def talk(runtime: ToolRuntime) -> str:
        """Talk."""
        runtime.emit_output_delta("half")
        runtime.stream_writer({"progress": 1})
        return "whole"

    @tool
    def ask() -> str:
        """Ask."""
        return interrupt({"q": 1})

    turn = ["Let me see", Call("talk", {}), Call("fail", {"why": "no"}), Call("ask", {})]
    agent = create_agent(scripted(turn), [talk, fail, ask], checkpointer=InMemorySaver())

    run_events = events(call, agent, "?", THREAD)

    assert {event["method"] for event in run_events} == set(SHAPES)
    assert [event["seq"] for event in run_events] == list(range(1, len(run_events) + 1))
    for event in run_events:
        assert event["type"] == "event"
        assert is_shaped(event["params"]["data"], SHAPES[event["method"]]), event
        json.dumps(event)
        assert event["params"]["namespace"] == []
    tools = [event["params"]["data"]["event"] for event in run_events if event["method"] == "tools"]
    assert sorted(tools) == [
        "tool-error",
        *["tool-finished"],
        "tool-output-delta",
        *["tool-started"] * 3,
    ]
    ends = [
        event["params"]["data"]["event"] for event in run_events if event["method"] == "lifecycle"
    ]
    assert ends == ["started", "interrupted"]


def test_the_test_of_shapes_tells_wrong_from_right():
    assert not is_shaped({"event": "tool-started"}, SHAPES["tools"])
    assert not is_shaped({"event": "begun"}, SHAPES["messages"])
    TypeAdapter(dict).validate_python({})


def test_a_sub_agents_events_are_nested_by_namespace(call):
    inner = create_agent(
        scripted([Call("add", {"a": 1, "b": 1}, id="c2")], "two"), [add], name="adder"
    )

    @tool
    def ask(question: str) -> str:
        """Ask."""
        return inner.invoke({"messages": question})["messages"][-1].text

    outer = create_agent(
        scripted([Call("ask", {"question": "1 + 1"}, id="c1")], "It is two"), [ask], name="boss"
    )

    run_events = events(call, outer, "?")

    nested = [event for event in run_events if event["params"]["namespace"] == ["tools:c1"]]
    assert {event["method"] for event in nested} >= {"lifecycle", "messages", "tools", "updates"}
    lifecycle = next(event for event in nested if event["method"] == "lifecycle")["params"]["data"]
    assert lifecycle["graph_name"] == "adder"
    assert lifecycle["cause"] == {"type": "toolCall", "tool_call_id": "c1"}
    order = [
        (event["params"]["namespace"], event["params"]["data"].get("event")) for event in run_events
    ]
    start_index = order.index(([], "tool-started"))
    assert start_index < order.index((["tools:c1"], "started")) < order.index(([], "tool-finished"))


def test_an_agent_is_a_tool_of_another_and_nests_in_traces(call, recorder):
    inner = create_agent(scripted([Call("add", {"a": 1, "b": 1})], "two"), [add], name="adder")
    helper = inner.as_tool(description="Adds numbers.")
    outer = create_agent(
        scripted([Call("adder", {"task": "1 + 1"})], "It is two"), [helper], name="boss"
    )

    state = call.invoke(outer, "?", {"callbacks": [recorder]})

    assert state["messages"][2].text == "two"
    assert recorder.parents["add"] == "tools"
    assert recorder.events.count(("chain_start", "adder")) == 1
    assert recorder.starts() == recorder.ends()


def test_only_some_channels_may_be_asked_for(call):
    agent = create_agent(scripted([Call("add", {"a": 1, "b": 1})], "2"), [add])

    run_events = call.run(agent, "run_events", "?", channels=["tools"])

    assert [event["params"]["data"]["event"] for event in run_events] == [
        "tool-started",
        "tool-finished",
    ]
    with pytest.raises(UsageError, match="channels"):
        call.run(agent, "run_events", "?", channels=["news"])


def test_v3_events_and_run_events_are_the_same_stream(call):
    agent = create_agent(ScriptedChatModel(script=["Hi"], is_cyclic=True))

    by_name = call.run(agent, "run_events", "?")
    by_version = call.run(agent, "stream_events", "?", version="v3")

    assert [event["method"] for event in by_name] == [event["method"] for event in by_version]


def test_stream_gives_updates_values_messages_and_custom(call):
    @tool
    def talk(runtime: ToolRuntime) -> str:
        """Talk."""
        runtime.stream_writer("half")
        return "whole"

    def agent():
        return create_agent(scripted([Call("talk", {})], "It is done"), [talk])

    updates = call.stream(agent(), "?")
    assert [list(update) for update in updates] == [["model"], ["tools"], ["model"]]
    values = call.stream(agent(), "?", stream_mode="values")
    assert [len(value["messages"]) for value in values] == [1, 2, 3, 4]
    pieces = call.stream(agent(), "?", stream_mode="messages")
    text = "".join(message.text for message, piece in pieces if isinstance(message, AIMessageChunk))
    assert text == "It is done"
    assert [message.content for message, piece in pieces if isinstance(message, ToolMessage)] == [
        "whole"
    ]
    assert call.stream(agent(), "?", stream_mode="custom") == ["half"]
    chunks = call.stream(agent(), "?", stream_mode=["custom", "updates"])
    assert [mode for mode, _ in chunks] == ["updates", "custom", "updates", "updates"]


def test_stream_says_when_a_run_stops_for_a_person(call):
    @tool
    def ask() -> str:
        """Ask."""
        return interrupt("sure?")

    agent = create_agent(scripted([Call("ask", {})]), [ask], checkpointer=InMemorySaver())

    last = call.stream(agent, "?", THREAD)[-1]

    assert isinstance(last["__interrupt__"][0], Interrupt)
    assert last["__interrupt__"][0].value == "sure?"


def test_a_run_that_fails_says_so_and_raises(call):
    agent = create_agent(scripted(["Well", Fail(ModelAPIError("down", is_retryable=False))]))
    run_events = []

    def read():
        run_events.extend(agent.run_events("?"))

    async def aread():
        async for event in agent.arun_events("?"):
            run_events.append(event)  # noqa: PERF401  what came before the error is wanted

    with pytest.raises(ModelAPIError, match="down") as excinfo:
        asyncio.run(aread()) if call.is_async else read()

    assert run_events[-1]["params"]["data"]["event"] == "failed"
    assert [message.text for message in excinfo.value.messages] == ["?"]
    assert excinfo.value.partial.text == "Well"


def test_callbacks_nest_and_every_run_ends_once(call, recorder):
    agent = create_agent(
        scripted([Call("add", {"a": 1, "b": 1}), Call("fail", {"why": "x"})], "2"), [add, fail]
    )

    call.invoke(agent, "?", {"callbacks": [recorder]})

    assert recorder.parents["model"] == "agent"
    assert recorder.parents["tools"] == "agent"
    assert recorder.parents["ScriptedChatModel"] == "model"
    assert recorder.parents["add"] == "tools"
    assert recorder.starts() == recorder.ends() == 8
    assert recorder.events[-1] == ("chain_end", "agent")
    assert ("tool_error", "fail") in recorder.events


def test_a_stream_ends_its_runs_once_and_tells_the_last_state(call, recorder):
    outputs = []
    recorder.on_chain_end = lambda out, *, run_id, **kwargs: (  # type: ignore[method-assign]
        outputs.append(out), recorder._end("chain_end", run_id)
    )  # fmt: skip
    agent = create_agent(scripted([Call("add", {"a": 1, "b": 1})], "2"), [add])

    call.stream(agent, "?", {"callbacks": [recorder]}, stream_mode="messages")

    assert outputs[-1]["messages"][-1].text == "2"
    assert recorder.starts() == recorder.ends()


def test_a_stream_closed_early_ends_its_runs_once(recorder):
    model = scripted(["one ", "two ", Stall(30)])
    stream = create_agent(model).stream("?", {"callbacks": [recorder]}, stream_mode="messages")

    start = time.monotonic()
    next(stream)
    stream.close()

    assert time.monotonic() - start < 5
    assert model.interrupted == 1
    assert recorder.starts() == recorder.ends() == 3


def test_the_drawing_shows_model_and_tools():
    agent = create_agent(scripted("x"), [add])

    graph = agent.get_graph()

    assert set(graph.nodes) == {"__start__", "model", "tools", "__end__"}
    edges = {(edge.source, edge.target, edge.conditional) for edge in graph.edges}
    assert ("model", "tools", True) in edges
    assert ("tools", "model", False) in edges
    assert "tools" in graph.draw_mermaid()
    assert "model" in graph.draw_ascii()


def test_an_agent_is_a_step_like_any_other(call):
    chain = create_agent(scripted("Hi")) | (lambda state: state["messages"][-1].text)

    assert call.invoke(chain, "?") == "Hi"


def test_any_runnable_that_gives_messages_may_be_the_model(call):
    agent = create_agent(RunnableLambda(lambda messages: AIMessage(f"{len(messages)} heard")))

    assert call.invoke(agent, "?")["messages"][-1].text == "1 heard"
    run_events = call.run(agent, "run_events", "?", channels=["messages"])
    assert [event["params"]["data"]["event"] for event in run_events][::4] == [
        "message-start",
        "message-finish",
    ]
    with pytest.raises(UsageError, match="returned a str, not an AIMessage"):
        call.invoke(create_agent(RunnableLambda(lambda messages: "text")), "?")


def test_a_model_with_fallbacks_speaks_as_one(call):
    broken = scripted([Fail(ModelAPIError("down", is_retryable=False))])
    model = broken.with_fallbacks([scripted([Call("add", {"a": 1, "b": 2})], "3")])

    run_events = call.run(create_agent(model, [add]), "run_events", "?", channels=["values"])

    assert run_events[-1]["params"]["data"]["messages"][2]["content"] == "3"


def test_an_answer_never_takes_the_place_of_an_earlier_message_with_its_id(call):
    answers = [AIMessage("one", id="same"), AIMessage("two", id="same")]
    agent = create_agent(scripted(*answers), checkpointer=InMemorySaver())

    call.invoke(agent, "a", THREAD)
    state = call.invoke(agent, "b", THREAD)

    assert [message.text for message in state["messages"]] == ["a", "one", "b", "two"]


# -- what handlers get of the model's answers


class Tokens(BaseCallbackHandler):
    """Counts what it gets of each answer."""

    run_inline = True

    def __init__(self) -> None:
        self.answers: list[list[str]] = []
        self.events = 0

    def on_chat_model_start(self, serialized, messages, **kwargs) -> None:
        self.answers.append([])

    def on_llm_new_token(self, token, **kwargs) -> None:
        self.answers[-1].append(token)

    def on_stream_event(self, event, **kwargs) -> None:
        self.events += 1


FIVE = "one two three four five"
WRAPPERS = {
    "plain": lambda model: model,
    "bound": lambda model: model.bind(stop=["."]),
    "configured": lambda model: model.with_config(tags=["a"]),
    "with fallbacks": lambda model: model.with_fallbacks([scripted("never")]),
}


def adding(wrapper: str):
    """A model that calls a tool, then answers with five words."""
    return WRAPPERS[wrapper](scripted([Call("add", {"a": 1, "b": 2})], FIVE))


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("mode", ["messages", "events"])
def test_handlers_get_every_token_of_an_agents_stream_once(call, mode, wrapper):
    tokens = Tokens()

    call.stream(
        create_agent(adding(wrapper), [add]),
        {"messages": "Add."},
        {"callbacks": [tokens]},
        stream_mode=mode,
    )

    calling, answering = ([token for token in answer if token] for answer in tokens.answers)
    assert calling == []
    assert answering == ["one", " two", " three", " four", " five"]
    assert tokens.events == 0


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_handlers_get_no_tokens_where_nobody_reads_the_pieces(call, wrapper):
    tokens = Tokens()
    agent = create_agent(adding(wrapper), [add])

    call.stream(agent, {"messages": "Add."}, {"callbacks": [tokens]}, stream_mode="values")

    assert tokens.answers == [[], []]


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("version", ["v0", "v1"])
def test_the_messages_of_an_agent_are_the_same_whatever_is_read_of_its_run(call, version, wrapper):
    def contents(mode: str):
        model = scripted([Call("add", {"a": 1, "b": 2}, id="c")], FIVE, output_version=version)
        agent = create_agent(WRAPPERS[wrapper](model), [add], checkpointer=InMemorySaver())
        call.stream(agent, {"messages": "Add."}, THREAD, stream_mode=mode)
        messages = agent.get_state(THREAD).values["messages"]
        return [
            (message.content, message.response_metadata)
            for message in messages
            if message.type == "ai"
        ]

    assert contents("messages") == contents("events") == contents("values")
