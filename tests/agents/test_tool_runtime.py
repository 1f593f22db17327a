"""The runtime inside tools, `get_runtime()` and its kin; and errors of foldline itself, which are not the model's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from foldline.agents import create_agent
from foldline.agents.middleware import (
    ToolErrorMiddleware,
    ToolRetryMiddleware,
    before_model,
    wrap_model_call,
    wrap_tool_call,
)
from foldline.checkpoint import InMemorySaver
from foldline.exceptions import (
    MissingExtraError,
    MissingKeyError,
    RecursionLimitError,
    ToolException,
    UsageError,
)
from foldline.graph import (
    END,
    START,
    StateGraph,
    ToolNode,
    get_config,
    get_runtime,
    get_store,
    get_stream_writer,
    interrupt,
)
from foldline.graph.store import InMemoryStore
from foldline.messages import AIMessage
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool


@dataclass
class User:
    name: str


@tool
def who() -> str:
    """Tell the name of the user."""
    get_stream_writer()("looking")
    return str(get_runtime(User).context)


def calling(*names: str) -> ScriptedChatModel:
    return ScriptedChatModel(script=[[Call(name) for name in names], "done"], is_cyclic=True)


def results(state: Any) -> list[str]:
    return [message.text for message in state["messages"] if message.type == "tool"]


ADA = "User(name='Ada')"


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["plain", "saved"])
def test_AH9_get_runtime_works_in_the_tools_of_an_agent(call, checkpointer):
    agent = create_agent(calling("who", "who"), [who], checkpointer=checkpointer)
    config = {"configurable": {"thread_id": call.mode}}

    assert results(call.invoke(agent, "?", config, context=User("Ada"))) == [ADA, ADA]


def test_AH9_get_runtime_works_in_an_async_tool():
    @tool
    async def who_async() -> str:
        """Tell the name of the user."""
        await asyncio.sleep(0)
        return str(get_runtime().context)

    agent = create_agent(calling("who_async"), [who_async])

    assert results(asyncio.run(agent.ainvoke("?", context=User("Ada")))) == [ADA]


def test_AH9_get_runtime_works_in_a_tool_that_starts_while_the_message_streams(call):
    eager = tool(who.func, eager=True)
    agent = create_agent(calling("who"), [eager])

    assert results(call.invoke(agent, "?", context=User("Ada"))) == [ADA]


def test_AH9_a_tool_of_an_agent_has_the_store_the_config_and_the_stream(call):
    store = InMemoryStore()
    seen = []

    @tool
    def look() -> str:
        """Look."""
        get_stream_writer()("looking")
        seen.append((get_store(), get_config()["configurable"]["user"]))
        return "seen"

    agent = create_agent(calling("look"), [look], store=store)

    pieces = call.stream(agent, "?", {"configurable": {"user": "Ada"}}, stream_mode="custom")

    assert pieces == ["looking"]
    assert seen == [(store, "Ada")]


def test_AH9_get_runtime_works_in_the_hooks_and_wraps_of_an_agent(call):
    seen = []

    @before_model
    def look(state, runtime):
        seen.append(("hook", str(get_runtime().context)))

    @wrap_model_call
    def around_model(request, handler):
        seen.append(("model", str(get_runtime().context)))
        return handler(request)

    @wrap_tool_call
    def around_tool(request, handler):
        seen.append(("tool", str(get_runtime().context)))
        return handler(request)

    agent = create_agent(calling("who"), [who], middleware=[look, around_model, around_tool])

    call.invoke(agent, "?", context=User("Ada"))

    assert set(seen) == {("hook", ADA), ("model", ADA), ("tool", ADA)}


def test_AH9_get_runtime_works_in_a_tool_node_of_a_graph(call):
    class State(TypedDict):
        messages: list[Any]

    graph = StateGraph(State, context_schema=User)
    graph.add_node("tools", ToolNode([who]))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    message = AIMessage("", tool_calls=[{"name": "who", "args": {}, "id": "1"}])

    state = call.invoke(graph.compile(), {"messages": [message]}, context=User("Ada"))

    assert results(state) == [ADA]


def test_AH9_an_agent_inside_a_tool_or_a_graph_inherits_context_and_store(call):
    store = InMemoryStore()
    seen = []

    @tool
    def look() -> str:
        """Look."""
        seen.append((str(get_runtime().context), get_store()))
        return "seen"

    inner = create_agent(calling("look"), [look], name="inner")

    @tool
    def ask() -> str:
        """Ask the inner agent."""
        return inner.invoke("?")["messages"][-1].text

    outer = create_agent(calling("ask"), [ask], store=store)
    graph = StateGraph(dict, context_schema=User)
    graph.add_node("agent", inner)
    graph.add_edge(START, "agent")

    call.invoke(outer, "?", context=User("Ada"))
    call.invoke(graph.compile(store=store), {"messages": "?"}, context=User("Ada"))

    assert seen == [(ADA, store), (ADA, store)]


def test_AH9_the_runtime_of_an_inner_agent_does_not_outlive_its_call(call):
    seen = []
    inner = create_agent(calling("who"), [who], name="inner")

    @tool
    def ask() -> str:
        """Ask the inner agent."""
        inner.invoke("?", context=User("Bob"))
        seen.append(str(get_runtime().context))
        return "asked"

    call.invoke(create_agent(calling("ask"), [ask]), "?", context=User("Ada"))

    assert seen == [ADA]
    with pytest.raises(UsageError, match="get_runtime"):
        get_runtime()


# -- the form of the context


class Account(BaseModel):
    name: str


@pytest.mark.parametrize(
    ("schema", "shown"), [(User, ADA), (Account, "name='Ada'"), (dict, "{'name': 'Ada'}")]
)
def test_a_dict_becomes_the_context_of_the_schema(call, schema, shown):
    agent = create_agent(calling("who"), [who], context_schema=schema)
    graph = StateGraph(dict, context_schema=schema)
    graph.add_node("look", lambda state: {"name": str(get_runtime().context)})
    graph.add_edge(START, "look")

    assert results(call.invoke(agent, "?", context={"name": "Ada"})) == [shown]
    assert call.invoke(graph.compile(), {}, context={"name": "Ada"}) == {"name": shown}


@pytest.mark.parametrize("context", [3, {"nmae": "Ada"}, "Ada"])
def test_a_context_that_is_not_of_the_schema_is_an_error(call, context):
    agent = create_agent(calling("who"), [who], context_schema=User)
    graph = StateGraph(dict, context_schema=User)
    graph.add_node("look", lambda state: {})
    graph.add_edge(START, "look")

    for target, value in ((agent, "?"), (graph.compile(), {})):
        with pytest.raises(UsageError, match=r"context=.*User"):
            call.invoke(target, value, context=context)


# -- errors of foldline itself


def failing(error: Exception) -> Any:
    @tool
    def broken() -> str:
        """Fail."""
        raise error

    return broken


@pytest.mark.parametrize(
    "error", [UsageError("wrong call"), MissingExtraError("no package")], ids=["usage", "extra"]
)
def test_AH9_a_wrong_use_of_foldline_inside_a_tool_is_raised(call, error):
    agent = create_agent(calling("broken"), [failing(error)])

    with pytest.raises(type(error), match=str(error)) as caught:
        call.invoke(agent, "?")
    assert caught.value.messages[-1].tool_call_id


def test_AH9_an_interrupt_in_a_tool_without_a_checkpointer_is_raised(call):
    @tool
    def ask() -> str:
        """Ask a person."""
        return str(interrupt("Really?"))

    with pytest.raises(UsageError, match="checkpointer"):
        call.invoke(create_agent(calling("ask"), [ask]), "?")


@pytest.mark.parametrize(
    "error",
    [
        ToolException("no"),
        ValueError("no"),
        MissingKeyError("no"),
        RecursionLimitError("no"),
        KeyError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_AH9_an_error_that_the_model_may_react_to_is_sent_to_it(call, error):
    state = call.invoke(create_agent(calling("broken"), [failing(error)]), "?")

    assert "no" in results(state)[0]
    assert state["messages"][-1].text == "done"


def test_AH9_a_retry_does_not_repeat_a_wrong_use_of_foldline(call):
    calls = []

    @tool
    def broken() -> str:
        """Fail."""
        calls.append(1)
        raise UsageError("wrong call")

    agent = create_agent(calling("broken"), [broken], middleware=[ToolRetryMiddleware()])

    with pytest.raises(UsageError, match="wrong call"):
        call.invoke(agent, "?")
    assert len(calls) == 1


def test_AH9_a_handler_of_errors_of_ones_own_decides_for_a_wrong_use_too(call):
    plain = create_agent(
        calling("broken"), [failing(UsageError("wrong"))], middleware=[ToolErrorMiddleware()]
    )
    own = create_agent(
        calling("broken"),
        [failing(UsageError("wrong"))],
        middleware=[ToolErrorMiddleware(lambda error, request: "try another tool")],
    )

    with pytest.raises(UsageError, match="wrong"):
        call.invoke(plain, "?")
    assert results(call.invoke(own, "?")) == ["try another tool"]


def test_AH9_a_tool_node_raises_a_wrong_use_of_foldline_unless_it_is_named(call):
    message = AIMessage("", tool_calls=[{"name": "broken", "args": {}, "id": "1"}])
    broken = failing(UsageError("wrong"))

    with pytest.raises(UsageError, match="wrong"):
        call.invoke(ToolNode([broken]), [message])
    for handler in ("it failed", UsageError, (Exception,), lambda error: "it failed"):
        node = ToolNode([broken], handle_tool_errors=handler)
        assert call.invoke(node, [message])[0].status == "error"
    assert "no" in call.invoke(ToolNode([failing(ValueError("no"))]), [message])[0].text
