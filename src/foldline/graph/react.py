"""`create_react_agent`: a graph of a model and its tools, like LangGraph's prebuilt agent."""

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
"""The prompt: a text or message before the messages, or a function of the state that returns the model's input."""
OUT_OF_STEPS = "Sorry, need more steps to process this request."


class AgentState(MessagesState):
    """The state of a react agent."""

    remaining_steps: RemainingSteps


class AgentStateWithStructuredResponse(AgentState):
    """The state of a react agent with a structured response."""

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

    The nodes are `agent` and `tools`, and `pre_model_hook`, `post_model_hook` and `generate_structured_response` if
    they are used.
    """
    chat_model = init_chat_model(model) if isinstance(model, str) else model
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
    ask_functions = _model_functions(chat_model, bindable, prompt)
    graph = StateGraph(schema, context_schema)
    graph.add_node("agent", RunnableLambda(*ask_functions, name="agent"))
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
        graph.add_node(
            finish, RunnableLambda(*_structured_functions(chat_model, response_format), name=finish)
        )
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


def _model_functions(model: Runnable[Any, Any], tools: list[Any], prompt: Prompt) -> Pair:
    """Return the sync and the async function that call the model."""
    if not isinstance(model, Runnable) and callable(model):
        raise UsageError(
            "create_react_agent takes a chat model; to choose one per call, use middleware of create_agent"
        )
    bound = model.bind_tools(tools) if tools and hasattr(model, "bind_tools") else model
    chain = bound if prompt is None else RunnableLambda(_prompt_function(prompt)) | bound

    def read(state: object) -> object:
        messages = _get(state, "llm_input_messages") or _get(state, "messages")
        return messages if prompt is None or not callable(prompt) else state

    def answer(state: object, message: AIMessage) -> dict[str, Any]:
        remaining = _get(state, "remaining_steps")
        if remaining is not None and remaining < 2 and message.tool_calls:
            message = AIMessage(OUT_OF_STEPS, id=message.id)
        earlier_ids = {one.id for one in _get(state, "messages") or []}
        return {"messages": [with_fresh_id(message, earlier_ids)]}

    def ask(state: object) -> dict[str, Any]:
        return answer(state, chain.invoke(read(state)))

    async def aask(state: object) -> dict[str, Any]:
        return answer(state, await chain.ainvoke(read(state)))

    return ask, aask


def _prompt_function(prompt: object) -> Callable[[Any], Any]:
    if isinstance(prompt, Runnable):
        return prompt.invoke
    if callable(prompt):
        function: Callable[[Any], Any] = prompt
        return function
    system = SystemMessage(prompt) if isinstance(prompt, str) else prompt
    return lambda messages: [system, *messages]


def _structured_functions(model: Any, response_format: object) -> Pair:  # noqa: ANN401  any object with `with_structured_output`
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
