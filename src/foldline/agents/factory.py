"""`create_agent`: makes a runnable from a model, tools and middleware."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import UnionType
from typing import Any, TypeVar, overload

from foldline._traceback import entry_point
from foldline.agents._agent_definition import LostCall, Setup
from foldline.agents.agent import Agent
from foldline.agents.middleware.base import AgentMiddleware
from foldline.agents.state import AgentState, SchemaT, StructuredAgentState
from foldline.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from foldline.chat_models import init_chat_model
from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.exceptions import UsageError
from foldline.language_models._call.policies.usage import Limits
from foldline.messages import SystemMessage
from foldline.runnables.base import Runnable
from foldline.tools.base import BaseTool
from foldline.tools.convert import tool as as_tool
from foldline.utils._options import check_options
from foldline.workflows.durability import Durability, check_engine

__all__ = ["create_agent"]

StateT = TypeVar("StateT", bound=AgentState)
Tool = BaseTool | Callable[..., Any] | Mapping[str, Any]
PAUSES = "use HumanInTheLoopMiddleware, or call interrupt() in a tool or a hook"
ADVICE = {
    "debug": 'stream with stream_mode="debug"',
    "cache": "pass the chat model a cache: init_chat_model(…, cache=…)",
    "interrupt_before": PAUSES,
    "interrupt_after": PAUSES,
    "prompt": "it is named system_prompt",
}
"""Options of LangChain's agents -> what to write here."""
STORE_METHODS = (("search", "put"), ("mget", "mset"))
"""Methods of a store: of namespaces with values, or of keys and values."""


@overload
def create_agent(
    model: str | Runnable[Any, Any],
    tools: Sequence[Tool] | None = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AgentMiddleware] = (),
    response_format: None = None,
    state_schema: None = None,
    context_schema: type | None = None,
    checkpointer: BaseCheckpointSaver | None = None,
    store: object = None,
    limits: Limits | None = None,
    name: str | None = None,
    durability: Durability | None = None,
    on_lost_call: LostCall = "again",
) -> Agent[AgentState]: ...
@overload
def create_agent(
    model: str | Runnable[Any, Any],
    tools: Sequence[Tool] | None = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AgentMiddleware] = (),
    response_format: type[SchemaT]
    | ToolStrategy[SchemaT]
    | ProviderStrategy[SchemaT]
    | AutoStrategy[SchemaT],
    state_schema: None = None,
    context_schema: type | None = None,
    checkpointer: BaseCheckpointSaver | None = None,
    store: object = None,
    limits: Limits | None = None,
    name: str | None = None,
    durability: Durability | None = None,
    on_lost_call: LostCall = "again",
) -> Agent[StructuredAgentState[SchemaT]]: ...
@overload
def create_agent(
    model: str | Runnable[Any, Any],
    tools: Sequence[Tool] | None = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AgentMiddleware] = (),
    response_format: UnionType | Mapping[str, Any],
    state_schema: None = None,
    context_schema: type | None = None,
    checkpointer: BaseCheckpointSaver | None = None,
    store: object = None,
    limits: Limits | None = None,
    name: str | None = None,
    durability: Durability | None = None,
    on_lost_call: LostCall = "again",
) -> Agent[StructuredAgentState[Any]]: ...
@overload
def create_agent(
    model: str | Runnable[Any, Any],
    tools: Sequence[Tool] | None = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AgentMiddleware] = (),
    response_format: object = None,
    state_schema: type[StateT],
    context_schema: type | None = None,
    checkpointer: BaseCheckpointSaver | None = None,
    store: object = None,
    limits: Limits | None = None,
    name: str | None = None,
    durability: Durability | None = None,
    on_lost_call: LostCall = "again",
) -> Agent[StateT]: ...
@entry_point
@check_options(advice=ADVICE, skip=("model", "tools", "middleware", "checkpointer", "durability"))
def create_agent(
    model: str | Runnable[Any, Any],
    tools: Sequence[Tool] | None = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AgentMiddleware] = (),
    response_format: object = None,
    state_schema: type | None = None,
    context_schema: type | None = None,
    checkpointer: BaseCheckpointSaver | None = None,
    store: object = None,
    limits: Limits | None = None,
    name: str | None = None,
    durability: Durability | None = None,
    on_lost_call: LostCall = "again",
) -> Agent[Any]:
    """Make an agent: the model calls tools until it has an answer.

    `on_lost_call` says what happens to a call whose process or run ended while it ran, when the run is continued: it
    runs again with the same `idempotency_key()` ("again"), or the model learns that its effect is not known
    ("unknown"). A tool with `run_once` never runs again, one with `extras={"read_only": True}` always.

    ```python
    from foldline.agents import create_agent
    from foldline.testing import Call, ScriptedChatModel

    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

    model = ScriptedChatModel(script=[[Call("add", {"a": 2, "b": 3})], "It is 5."])
    agent = create_agent(model, [add], system_prompt="You are good at sums.")
    print(agent.invoke({"messages": "2 + 3?"})["messages"][-1].text)
    #> It is 5.
    ```
    """
    check_engine(durability, checkpointer)
    setup = Setup(
        _model(model),
        [_tool(source) for source in _sequence("tools", tools)],
        system_message=SystemMessage(system_prompt)
        if isinstance(system_prompt, str)
        else system_prompt,
        response_format=response_format,
        middleware=[_middleware(part) for part in _sequence("middleware", middleware)],
        state_schema=state_schema,
        checkpointer=_checkpointer(checkpointer),
        store=_store(store),
        limits=limits,
        name=name or "agent",
        durability=durability,
        context_schema=context_schema,
        on_lost_call=on_lost_call,
    )
    if setup.bindable and not hasattr(setup.model, "bind_tools"):
        raise UsageError(
            f"{type(setup.model).__name__} takes no tools: pass create_agent the chat model itself, "
            "not a chain around it"
        )
    return Agent(setup)


def _model(model: str | Runnable[Any, Any]) -> object:
    if isinstance(model, str):
        return init_chat_model(model)
    if not isinstance(model, Runnable):
        raise UsageError(
            f'create_agent needs a chat model or its name ("openai:gpt-5"), not {type(model).__name__}'
        )
    return model


def _sequence(option: str, parts: Sequence[Any] | None) -> Sequence[Any]:
    if parts is not None and (isinstance(parts, str) or not isinstance(parts, Iterable)):
        raise UsageError(f"create_agent takes a list: {option}=[…], not {parts!r:.80}")
    return list(parts or ())


def _store(store: object) -> object:
    if store is None or any(all(hasattr(store, name) for name in names) for names in STORE_METHODS):
        return store
    raise UsageError(
        f"store={store!r:.80} is no store: pass one of foldline.graph.store, such as InMemoryStore()"
    )


def _tool(source: Tool) -> object:
    if isinstance(source, BaseTool | Mapping):
        return source
    if not isinstance(source, type) and callable(source):
        return as_tool(source)
    raise UsageError(f"a tool is a function, a BaseTool or a provider's dict, not {source!r:.100}")


def _middleware(middleware: AgentMiddleware) -> AgentMiddleware:
    if isinstance(middleware, type):
        raise UsageError(f"pass an instance: middleware=[{middleware.__name__}()]")
    if not isinstance(middleware, AgentMiddleware):
        raise UsageError(f"middleware must be AgentMiddleware, not {type(middleware).__name__}")
    return middleware


def _checkpointer(saver: BaseCheckpointSaver | None) -> BaseCheckpointSaver | None:
    if saver is not None and not isinstance(saver, BaseCheckpointSaver):
        raise UsageError(
            f"checkpointer must be a saver of foldline.agents.checkpoint, not {type(saver).__name__}: {saver!r:.80}"
        )
    return saver
