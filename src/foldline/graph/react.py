"""`create_react_agent`: a graph of a model and its tools, like LangGraph's prebuilt agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict

from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.exceptions import UsageError
from foldline.graph._react_nodes import ModelNode, StructuredNode, model_input, state_value
from foldline.graph.builder import StateGraph
from foldline.graph.compiled import CompiledStateGraph
from foldline.graph.message_state import MessagesState, add_messages
from foldline.graph.schema import RemainingSteps
from foldline.graph.store.base import BaseStore
from foldline.graph.tool_node import ToolNode
from foldline.graph.types import END, START, Send
from foldline.language_models.chat_models import BaseChatModel
from foldline.messages import AIMessage, AnyMessage, BaseMessage, SystemMessage, ToolMessage
from foldline.runnables.base import Runnable

__all__ = [
    "AgentState",
    "AgentStatePydantic",
    "AgentStateWithStructuredResponse",
    "create_react_agent",
]

StructuredResponse = dict[str, Any] | BaseModel
"""A structured answer."""
Model = str | BaseChatModel | Runnable[Any, Any] | Callable[..., Any]
"""The model: a chat model, its name, or a function `(state, runtime)`, sync or async, that returns one."""
Prompt = str | SystemMessage | Runnable[Any, Any] | Callable[..., Any] | None
"""The prompt: a text or message before the messages, or a function or runnable of the state that returns the model's
input; a function may have the parameters config, store, runtime and writer."""


class AgentState(MessagesState):
    """The state of a react agent."""

    remaining_steps: RemainingSteps


class AgentStateWithStructuredResponse(AgentState):
    """The state of a react agent with a structured response."""

    structured_response: Any


class AgentStatePydantic(BaseModel):
    """The state of a react agent as a Pydantic model."""

    model_config = ConfigDict(defer_build=True)

    messages: Annotated[list[AnyMessage], add_messages]
    remaining_steps: RemainingSteps = 25


class AgentStateWithStructuredResponsePydantic(AgentStatePydantic):
    """The state of a react agent with a structured response as a Pydantic model."""

    structured_response: Any = None


def create_react_agent(
    model: Model,
    tools: Sequence[Any] | ToolNode,
    *,
    prompt: Prompt = None,
    response_format: object = None,
    pre_model_hook: object = None,
    post_model_hook: object = None,
    state_schema: object = None,
    context_schema: type | None = None,
    checkpointer: BaseCheckpointSaver | bool | None = None,
    store: BaseStore | None = None,
    interrupt_before: list[str] | None = None,
    interrupt_after: list[str] | None = None,
    debug: bool = False,
    version: Literal["v1", "v2"] = "v2",
    name: str | None = None,
) -> CompiledStateGraph:
    """Make a graph in which a model calls tools until it has an answer.

    The nodes are `agent` and `tools`, and `pre_model_hook`, `post_model_hook` and `generate_structured_response` if
    they are used. With `version="v2"` each tool call is a task of its own: one that has finished is not run again when
    another asks a person or fails. With "v1" all calls of an answer are one task.
    """
    if version not in ("v1", "v2"):
        raise UsageError(f'version={version!r}: pass "v2" (a task per tool call) or "v1"')
    node = (
        tools
        if isinstance(tools, ToolNode)
        else ToolNode([tool for tool in tools if not isinstance(tool, dict)])
    )
    bindable = [
        *node.tools_by_name.values(),
        *(
            []
            if isinstance(tools, ToolNode)
            else [tool for tool in tools if isinstance(tool, dict)]
        ),
    ]
    schema: Any = state_schema or (
        AgentStateWithStructuredResponse if response_format is not None else AgentState
    )
    model_node = ModelNode(model, bindable, prompt)
    graph = StateGraph(schema, context_schema)
    input_schema = None if pre_model_hook is None else model_input(schema)
    graph.add_node("agent", model_node, input_schema=input_schema)
    has_tools = bool(node.tools_by_name)
    if has_tools:
        graph.add_node("tools", node)
    entry = "agent"
    if pre_model_hook is not None:
        entry = "pre_model_hook"
        graph.add_node(entry, pre_model_hook)
        graph.add_edge(entry, "agent")
    graph.add_edge(START, entry)
    finish: str = END
    if response_format is not None:
        finish = "generate_structured_response"
        graph.add_node(finish, StructuredNode(model_node, response_format, finish))
        graph.add_edge(finish, END)
    last = "agent"
    if post_model_hook is not None:
        last = "post_model_hook"
        graph.add_node(last, post_model_hook)
        graph.add_edge("agent", last)
    routes = _Routes(node, last, entry, finish, has_tools=has_tools, is_split=version == "v2")
    routes.add_to(graph)
    return graph.compile(
        checkpointer,
        store=store,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        debug=debug,
        name=name or "LangGraph",
    )


class _Routes:
    """What follows the model, and what follows the tools."""

    def __init__(
        self,
        node: ToolNode,
        last: str,
        entry: str,
        finish: str,
        *,
        has_tools: bool,
        is_split: bool,
    ) -> None:
        self.node = node
        self.last = last
        """The node after which the answer of the model is read."""
        self.entry = entry
        self.finish = finish
        self.has_tools = has_tools
        self.is_split = is_split
        """Whether each tool call is a task."""

    def add_to(self, graph: StateGraph[Any, Any, Any, Any]) -> None:
        has_hook = self.last != "agent"
        names = ["tools"] * self.has_tools + [self.finish] + [self.entry] * has_hook
        graph.add_conditional_edges(self.last, self.after_model, list(dict.fromkeys(names)))
        if self.has_tools:
            ends = list(dict.fromkeys([self.entry, self.finish]))
            graph.add_conditional_edges("tools", self.after_tools, ends)

    def after_model(self, state: object) -> str | list[Send]:
        messages = state_value(state, "messages") or []
        answer = _last_answer(messages)
        results = {item.tool_call_id for item in messages if isinstance(item, ToolMessage)}
        calls = [] if answer is None else answer.tool_calls
        is_open = any(call["id"] not in results for call in calls)
        if self.has_tools and is_open and answer is not None:
            if not self.is_split:
                return "tools"
            open_calls = [
                call
                for call in [*calls, *answer.invalid_tool_calls]
                if call.get("id") not in results
            ]
            return [Send("tools", [dict(call)]) for call in open_calls]
        has_results = bool(messages) and isinstance(messages[-1], ToolMessage)
        return self.entry if has_results and self.last != "agent" else self.finish

    def after_tools(self, state: object) -> str:
        """End if the answer called a tool whose result is the result; its call may be another task."""
        answer = _last_answer(state_value(state, "messages") or [])
        for call in () if answer is None else answer.tool_calls:
            tool = self.node.tools_by_name.get(call["name"])
            if tool is not None and tool.return_direct:
                return self.finish
        return self.entry


def _last_answer(messages: Sequence[BaseMessage]) -> AIMessage | None:
    return next((item for item in reversed(messages) if isinstance(item, AIMessage)), None)
