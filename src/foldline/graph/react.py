"""`create_react_agent`: a graph of a model and its tools, as LangGraph's prebuilt one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from foldline.agents.state import with_fresh_id
from foldline.chat_models import init_chat_model
from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.exceptions import UsageError
from foldline.graph.builder import StateGraph
from foldline.graph.compiled import CompiledStateGraph
from foldline.graph.message_state import MessagesState
from foldline.graph.schema import RemainingSteps
from foldline.graph.store.base import BaseStore
from foldline.graph.tool_node import ToolNode
from foldline.graph.types import END, START
from foldline.language_models.chat_models import BaseChatModel
from foldline.messages import AIMessage, BaseMessage, SystemMessage
from foldline.runnables.base import Runnable
from foldline.runnables.lambda_ import RunnableLambda
from foldline.tools.base import BaseTool

__all__ = ["AgentState", "AgentStateWithStructuredResponse", "create_react_agent"]

Prompt = str | SystemMessage | Runnable[Any, Any] | Callable[..., Any] | None
"""What stands before the messages: a text, a message, or what makes the input of the state."""
OUT_OF_STEPS = "Sorry, need more steps to process this request."


class AgentState(MessagesState):
    """The state of a react agent."""

    remaining_steps: RemainingSteps


class AgentStateWithStructuredResponse(AgentState):
    """The state of a react agent that answers in a form."""

    structured_response: Any


def create_react_agent(
    model: str | BaseChatModel | Runnable[Any, Any],
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
    version: str = "v2",
    name: str | None = None,
) -> CompiledStateGraph:
    """Make a graph in which a model calls tools until it has an answer.

    The nodes are `agent` and `tools`, with `pre_model_hook`, `post_model_hook` and `generate_structured_response`
    where they are given.
    """
    made = init_chat_model(model) if isinstance(model, str) else model
    node = (
        tools
        if isinstance(tools, ToolNode)
        else ToolNode([one for one in tools if not isinstance(one, dict)])
    )
    bindable = [
        *node.tools_by_name.values(),
        *([] if isinstance(tools, ToolNode) else [one for one in tools if isinstance(one, dict)]),
    ]
    schema = state_schema or (
        AgentStateWithStructuredResponse if response_format is not None else AgentState
    )
    ask = _asking(made, bindable, prompt)
    graph = StateGraph(schema, context_schema)
    graph.add_node("agent", RunnableLambda(*ask, name="agent"))
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
        graph.add_node(finish, RunnableLambda(*_structuring(made, response_format), name=finish))
        graph.add_edge(finish, END)
    last = "agent"
    if post_model_hook is not None:
        last = "post_model_hook"
        graph.add_node(last, post_model_hook)
        graph.add_edge("agent", last)
    _route(graph, last, entry, finish, node, has_tools=has_tools)
    return graph.compile(
        checkpointer,
        store=store,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        debug=debug,
        name=name or "LangGraph",
    )


def _route(
    graph: StateGraph, last: str, entry: str, finish: str, node: ToolNode, *, has_tools: bool
) -> None:
    def after_model(state: object) -> str:
        messages = _get(state, "messages") or []
        message = messages[-1] if messages else None
        if isinstance(message, AIMessage) and message.tool_calls and has_tools:
            return "tools"
        is_answered = isinstance(message, BaseMessage) and message.type == "tool"
        return entry if is_answered and last != "agent" else finish

    def after_tools(state: object) -> str:
        for message in reversed(_get(state, "messages") or []):
            if message.type != "tool":
                break
            tool: BaseTool | None = node.tools_by_name.get(message.name or "")
            if tool is not None and tool.return_direct:
                return finish
        return entry

    ends = dict.fromkeys(
        [*(["tools"] if has_tools else []), finish, *([entry] if last != "agent" else [])]
    )
    graph.add_conditional_edges(last, after_model, list(ends))
    if has_tools:
        graph.add_conditional_edges("tools", after_tools, list(dict.fromkeys([entry, finish])))


def _get(state: object, key: str) -> Any:  # noqa: ANN401  a value of the state, of any type
    return state.get(key) if isinstance(state, dict) else getattr(state, key, None)


Pair = tuple[Callable[..., Any], Callable[..., Any]]


def _asking(model: Runnable[Any, Any], tools: list[Any], prompt: Prompt) -> Pair:
    """Return how to ask the model, blocking and async."""
    if not isinstance(model, Runnable) and callable(model):
        raise UsageError(
            "create_react_agent takes a chat model; to choose one per call, use middleware of create_agent"
        )
    bound = model.bind_tools(tools) if tools and hasattr(model, "bind_tools") else model
    chain = bound if prompt is None else RunnableLambda(_prompted(prompt)) | bound

    def read(state: object) -> object:
        given = _get(state, "llm_input_messages") or _get(state, "messages")
        return given if prompt is None or not callable(prompt) else state

    def answer(state: object, message: AIMessage) -> dict[str, Any]:
        remaining = _get(state, "remaining_steps")
        if remaining is not None and remaining < 2 and message.tool_calls:
            message = AIMessage(OUT_OF_STEPS, id=message.id)
        known = {one.id for one in _get(state, "messages") or []}
        return {"messages": [with_fresh_id(message, known)]}

    def ask(state: object) -> dict[str, Any]:
        return answer(state, chain.invoke(read(state)))

    async def aask(state: object) -> dict[str, Any]:
        return answer(state, await chain.ainvoke(read(state)))

    return ask, aask


def _prompted(prompt: object) -> Callable[[Any], Any]:
    if isinstance(prompt, Runnable):
        return prompt.invoke
    if callable(prompt):
        made: Callable[[Any], Any] = prompt
        return made
    system = SystemMessage(prompt) if isinstance(prompt, str) else prompt
    return lambda messages: [system, *messages]


def _structuring(model: Any, response_format: object) -> Pair:  # noqa: ANN401  a chat model, or a runnable that can be asked for a form
    prompt, schema = (
        response_format if isinstance(response_format, tuple) else (None, response_format)
    )
    structured = model.with_structured_output(schema)

    def read(state: object) -> object:
        messages = _get(state, "messages")
        return messages if prompt is None else [SystemMessage(prompt), *messages]

    def ask(state: object) -> dict[str, Any]:
        return {"structured_response": structured.invoke(read(state))}

    async def aask(state: object) -> dict[str, Any]:
        return {"structured_response": await structured.ainvoke(read(state))}

    return ask, aask
