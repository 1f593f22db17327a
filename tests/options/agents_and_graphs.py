"""Wrong values of the options of agents, middleware, executors, graphs and tools, and what happens with each."""

from __future__ import annotations

from typing import Any, TypedDict

import foldline.agents.middleware as middleware_package
from foldline.agents import create_agent
from foldline.agents.classic import AgentExecutor
from foldline.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    after_agent,
    after_model,
    before_agent,
    before_model,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from foldline.graph import START, StateGraph, ToolNode, get_runtime
from foldline.outputs.agent import AgentAction
from foldline.runnables import RunnableLambda
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import BaseTool, StructuredTool, tool
from foldline.tools.convert import ToolOptions
from foldline.workflows._loop_runnable import INVOKE_OPTIONS, STREAM_OPTIONS
from tests.options.matrix import Outcome, Row, Target, options_of

MODEL = ScriptedChatModel(script=["Hello"], is_cyclic=True)
PAUSES = ("interrupt_before", "interrupt_after")


class State(TypedDict, total=False):
    text: str


class User(TypedDict):
    name: str


@tool
def who() -> str:
    """Tell who calls."""
    return f"context {get_runtime().context!r}"


def double(x: int) -> int:
    """Double a number."""
    return 2 * x


class Doubling(BaseTool):
    name: str = "double"
    description: str = "Double a number."

    def _run(self, x: int) -> int:
        return 2 * x


def node(state: Any) -> Any:
    return {"text": f"context {get_runtime().context!r}"}


def graph(**options: Any) -> StateGraph:
    return StateGraph(**{"state_schema": State, **options})


def graph_of_one_node() -> StateGraph:
    return graph().add_node("one", node).add_edge(START, "one")


def agent_call(method: str) -> Any:
    model = ScriptedChatModel(script=[[Call("who")], "done"], is_cyclic=True)
    agent = create_agent(model, [who])

    def call(options: dict[str, Any]) -> Any:
        result = getattr(agent, method)("hi", **options)
        return result if method == "invoke" else list(result)

    return call


def graph_call(method: str) -> Any:
    def call(options: dict[str, Any]) -> Any:
        result = getattr(graph_of_one_node().compile(), method)({"text": "hi"}, **options)
        return result if method == "invoke" else list(result)

    return call


def executor(**options: Any) -> AgentExecutor:
    planner = RunnableLambda(lambda inputs: AgentAction("none", "", "look"))
    return AgentExecutor(**{"agent": planner, "tools": [], "max_iterations": 0, **options})


REQUIRED: dict[str, dict[str, Any]] = {
    "FilesystemFileSearchMiddleware": {"root_path": "."},
    "HumanInTheLoopMiddleware": {"interrupt_on": {}},
    "ModelCallLimitMiddleware": {"run_limit": 3},
    "ModelFallbackMiddleware": {"first_model": MODEL},
    "PIIMiddleware": {"pii_type": "email"},
    "SummarizationMiddleware": {"model": MODEL},
    "ToolCallLimitMiddleware": {"run_limit": 3},
}
"""Options that a middleware cannot be made without."""
MIDDLEWARE: dict[str, type] = {
    name: value
    for name in middleware_package.__all__
    if isinstance(value := getattr(middleware_package, name), type)
    and issubclass(value, AgentMiddleware)
    and value is not AgentMiddleware
}
RETRY = options_of(middleware_package.ModelRetryMiddleware)


def middleware_target(name: str, cls: type) -> Target:
    options = options_of(cls) | (RETRY if name == "ToolRetryMiddleware" else frozenset())
    return Target(
        options - {"additional_models"}, lambda **given: cls(**{**REQUIRED.get(name, {}), **given})
    )


def decorator_target(decorator: Any) -> Target:
    return Target(options_of(decorator), lambda **given: decorator(**given))


TARGETS: dict[str, Target] = {
    "create_agent": Target(
        options_of(create_agent), lambda **given: create_agent(**{"model": MODEL, **given})
    ),
    "agent.invoke": Target(frozenset(INVOKE_OPTIONS), lambda **given: given, agent_call("invoke")),
    "agent.stream": Target(frozenset(STREAM_OPTIONS), lambda **given: given, agent_call("stream")),
    **{name: middleware_target(name, cls) for name, cls in MIDDLEWARE.items()},
    "ClearToolUsesEdit": Target(options_of(ClearToolUsesEdit), ClearToolUsesEdit),
    "hook_config": Target(options_of(hook_config), hook_config),
    **{
        hook.__name__: decorator_target(hook)
        for hook in (
            before_agent,
            before_model,
            after_model,
            after_agent,
            wrap_model_call,
            wrap_tool_call,
        )
    },
    "AgentExecutor": Target(
        options_of(AgentExecutor), executor, lambda built: built.invoke({"input": "hi"})
    ),
    "StateGraph": Target(options_of(StateGraph), graph),
    "StateGraph.set_node_defaults": Target(
        options_of(StateGraph.set_node_defaults),
        lambda **given: graph().set_node_defaults(**given),
    ),
    "StateGraph.add_node": Target(
        options_of(StateGraph.add_node),
        lambda **given: graph().add_node(**{"node": "one", "action": node, **given}),
        lambda built: built.add_edge(START, "one").compile().invoke({"text": "hi"}),
    ),
    "StateGraph.add_edge": Target(
        options_of(StateGraph.add_edge),
        lambda **given: graph_of_one_node().add_edge(
            **{"start_key": "one", "end_key": "__end__", **given}
        ),
        lambda built: built.compile(),
    ),
    "StateGraph.add_conditional_edges": Target(
        options_of(StateGraph.add_conditional_edges),
        lambda **given: graph_of_one_node().add_conditional_edges(
            **{"source": "one", "path": lambda state: "__end__", **given}
        ),
        lambda built: built.compile(),
    ),
    "StateGraph.add_sequence": Target(
        options_of(StateGraph.add_sequence), lambda **given: graph().add_sequence(**given)
    ),
    "StateGraph.compile": Target(
        options_of(StateGraph.compile), lambda **given: graph_of_one_node().compile(**given)
    ),
    "graph.invoke": Target(
        frozenset({*INVOKE_OPTIONS, *PAUSES}), lambda **given: given, graph_call("invoke")
    ),
    "graph.stream": Target(
        frozenset({*STREAM_OPTIONS, *PAUSES}), lambda **given: given, graph_call("stream")
    ),
    "ToolNode": Target(
        options_of(ToolNode), lambda **given: ToolNode(**{"tools": [double], **given})
    ),
    "tool": Target(
        frozenset({"name_or_callable", "runnable", *ToolOptions.__annotations__}),
        lambda **given: tool(**{"name_or_callable": double, **given}),
    ),
    "StructuredTool": Target(
        options_of(StructuredTool),
        lambda **given: StructuredTool(
            **{"name": "double", "description": "Double.", "func": double, **given}
        ),
    ),
    "StructuredTool.from_function": Target(
        options_of(StructuredTool.from_function),
        lambda **given: StructuredTool.from_function(**{"func": double, **given}),
    ),
    "BaseTool": Target(options_of(BaseTool), Doubling),
}


def rows(
    target: str, match: str, outcome: Outcome = "error at construction", **options: Any
) -> list[Row]:
    """The rows of one target whose errors have the same words."""
    return [Row(target, option, value, outcome, match) for option, value in options.items()]


CALL: Outcome = "error at the call"
MUST = "must be"
NEAR = "did you mean"
INPUT = "Input should be"
HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
WRAPS = ("wrap_model_call", "wrap_tool_call")
TOOL_FIELDS: dict[str, Any] = {
    "return_direct": "maybe",
    "verbose": "maybe",
    "callbacks": 3,
    "tags": "a",
    "metadata": 3,
    "handle_tool_error": 3,
    "handle_validation_error": 3.5,
    "response_format": "text",
    "extras": 3,
    "timeout": 0,
    "max_output": 0,
    "eager": "maybe",
    "run_once": 3,
}

ROWS: list[Row] = [
    *rows(
        "create_agent", MUST, system_prompt=3, state_schema=3, context_schema=3, limits=3, name=3
    ),
    *rows("create_agent", "takes a list", tools=3, middleware="x"),
    *rows("create_agent", "needs a chat model", model=3),
    *rows("create_agent", "is not a schema", response_format=3),
    *rows("create_agent", "must be a saver", checkpointer=3),
    *rows("create_agent", "is no store", store=3),
    *rows("create_agent", "again", on_lost_call="never"),
    *rows("create_agent", "pass it to invoke or stream", durability="sync"),
    *rows("create_agent", NEAR, sytem_prompt="Be brief."),
    *rows("create_agent", "stream_mode", debug=True),
    *rows("agent.invoke", "context 3", "sent on", context=3),
    *rows("agent.invoke", '"sync", "async" or "exit"', CALL, durability="always"),
    *rows("agent.invoke", NEAR, CALL, contxt=3),
    *rows("agent.invoke", "Use stream", CALL, stream_mode="updates"),
    *rows("agent.invoke", "HumanInTheLoopMiddleware", CALL, interrupt_before=["tools"]),
    *rows("agent.stream", "context 3", "sent on", context=3),
    *rows("agent.stream", '"sync", "async" or "exit"', CALL, durability="always"),
    *rows("agent.stream", "use one or several", CALL, stream_mode="update"),
    *rows("agent.stream", "True or False", CALL, subgraphs=3),
    *rows("agent.stream", "some of", CALL, channels=["message"]),
    *rows("agent.stream", NEAR, CALL, stream_modes="values"),
    *rows("ContextEditingMiddleware", MUST, edits=[3], token_counter=3),
    *rows("ContextEditingMiddleware", NEAR, edit=[]),
    *rows("ClearToolUsesEdit", "or more", trigger=-1, clear_at_least=-1, keep=-1),
    *rows("ClearToolUsesEdit", MUST, clear_tool_inputs=3, exclude_tools="search", placeholder=3),
    *rows("ClearToolUsesEdit", "unexpected keyword", trigg=1),
    *rows("FilesystemFileSearchMiddleware", MUST, root_path=3, use_ripgrep=3),
    *rows("FilesystemFileSearchMiddleware", "1 or more", max_file_size_mb=0),
    *rows("FilesystemFileSearchMiddleware", NEAR, rootpath="."),
    *rows("HumanInTheLoopMiddleware", MUST, interrupt_on={"pay": "yes"}, description_prefix=3),
    *rows("HumanInTheLoopMiddleware", NEAR, interupt_on={}),
    *rows("LLMToolEmulator", MUST, tools=3, model=3),
    *rows("LLMToolEmulator", NEAR, tool=[]),
    *rows("LLMToolSelectorMiddleware", MUST, model=3, system_prompt=3, always_include="look"),
    *rows("LLMToolSelectorMiddleware", "1 or more", max_tools=0),
    *rows("LLMToolSelectorMiddleware", NEAR, max_tool=3),
    *rows("ModelCallLimitMiddleware", "0 or more", thread_limit=-1, run_limit=-1),
    *rows("ModelCallLimitMiddleware", MUST, exit_behavior="stop"),
    *rows("ModelCallLimitMiddleware", NEAR, runlimit=3),
    *rows("ModelFallbackMiddleware", MUST, first_model=3),
    *rows("ModelFallbackMiddleware", NEAR, first_mode="x"),
    *(
        row
        for name in ("ModelRetryMiddleware", "ToolRetryMiddleware")
        for row in (
            *rows(name, "0 or more", max_retries=-1, backoff_factor=-1, initial_delay=-1),
            *rows(name, "0 or more", max_delay=-1),
            *rows(name, MUST, retry_on=3, on_failure="stop", jitter=3),
            *rows(name, NEAR, max_retires=3),
        )
    ),
    *rows("ToolRetryMiddleware", MUST, tools=3),
    *rows("PIIMiddleware", "pass detector=", pii_type="shoe_size"),
    *rows("PIIMiddleware", MUST, strategy="hide", detector=3, apply_to_input=3),
    *rows("PIIMiddleware", MUST, apply_to_output=3, apply_to_tool_results=3),
    *rows("PIIMiddleware", NEAR, apply_to_inputs=True),
    *rows("ProviderToolSearchMiddleware", MUST, searchable_tools=3),
    *rows("ProviderToolSearchMiddleware", NEAR, searchable_tool=[]),
    *rows("ShellToolMiddleware", MUST, workspace_root=3, startup_commands=3, shutdown_commands=3),
    *rows("ShellToolMiddleware", MUST, execution_policy="host", redaction_rules=[3], env=3),
    *rows("ShellToolMiddleware", MUST, tool_description=3, tool_name=3, shell_command=3),
    *rows("ShellToolMiddleware", NEAR, tool_names="sh"),
    *rows("SummarizationMiddleware", MUST, model=3, trigger=3, keep=3, token_counter=3),
    *rows("SummarizationMiddleware", MUST, summary_prompt=3),
    *rows("SummarizationMiddleware", "1 or more", trim_tokens_to_summarize=0),
    *rows("SummarizationMiddleware", NEAR, triger=("messages", 3)),
    *rows("TodoListMiddleware", MUST, system_prompt=3, tool_description=3),
    *rows("TodoListMiddleware", NEAR, sytem_prompt="x"),
    *rows("ToolCallLimitMiddleware", "0 or more", thread_limit=-1, run_limit=-1),
    *rows("ToolCallLimitMiddleware", MUST, exit_behavior="stop", tool_name=3),
    *rows("ToolCallLimitMiddleware", NEAR, toolname="x"),
    *rows("ToolErrorMiddleware", MUST, on_error=3),
    *rows("ToolErrorMiddleware", NEAR, on_errors=3),
    *rows("hook_config", "write a list", can_jump_to="end"),
    *rows("hook_config", "unexpected keyword", can_jump=["end"]),
    *(
        row
        for name in (*HOOKS, *WRAPS)
        for row in (
            *rows(name, MUST, func=3, state_schema=3, tools=3, name=3),
            *rows(name, NEAR, tool=[]),
        )
    ),
    *(row for name in HOOKS for row in rows(name, "write a list", can_jump_to=["start"])),
    *rows("AgentExecutor", INPUT, name=3, memory=3, callbacks=3, verbose="maybe", tags="a"),
    *rows("AgentExecutor", INPUT, metadata=3, tools=3, max_execution_time=-1, max_iterations=-1),
    *rows("AgentExecutor", INPUT, handle_parsing_errors=3.5, trim_intermediate_steps="x"),
    *rows("AgentExecutor", INPUT, return_intermediate_steps="maybe"),
    *rows("AgentExecutor", "must be a runnable", agent=3),
    *rows("AgentExecutor", 'only "force"', CALL, early_stopping_method="stop"),
    *rows("AgentExecutor", NEAR, max_iteration=3),
    *rows("StateGraph", MUST, context_schema=3, config_schema=3),
    *rows("StateGraph", "schema", state_schema=3, input_schema=3, output_schema=3),
    *rows("StateGraph", "must be a TypedDict", input=3, output=3),
    *rows("StateGraph", NEAR, state_shema=State),
    *rows("StateGraph.set_node_defaults", MUST, retry_policy=3, cache_policy=3, timeout=-1),
    *rows("StateGraph.set_node_defaults", NEAR, time_out=3),
    *rows("StateGraph.add_node", MUST, defer=3, metadata=3, retry_policy=3, cache_policy=3),
    *rows("StateGraph.add_node", MUST, timeout=-1, destinations=3, retry=3),
    *rows("StateGraph.add_node", "must be a TypedDict", input_schema=3, input=3),
    *rows("StateGraph.add_node", "cannot be named", node="a|b"),
    *rows("StateGraph.add_node", "function", action=3),
    *rows("StateGraph.add_node", NEAR, retry_polcy=None),
    *rows("StateGraph.add_edge", MUST, start_key=3, end_key=3),
    *rows("StateGraph.add_edge", NEAR, end_keys="one"),
    *rows("StateGraph.add_conditional_edges", MUST, source=3, path=3, path_map=3),
    *rows("StateGraph.add_conditional_edges", NEAR, pathmap={}),
    *rows("StateGraph.add_sequence", MUST, nodes=3),
    *rows("StateGraph.add_sequence", NEAR, node=[]),
    *rows("StateGraph.compile", MUST, checkpointer=3, cache=3, store=3, name=3),
    *rows("StateGraph.compile", "is not a node", interrupt_before=["oen"], interrupt_after=["oen"]),
    *rows("StateGraph.compile", MUST, debug=3),
    *rows("StateGraph.compile", NEAR, checkpinter=None),
    *(
        row
        for name in ("graph.invoke", "graph.stream")
        for row in (
            *rows(name, "context 3", "sent on", context=3),
            *rows(name, '"sync", "async" or "exit"', CALL, durability="always"),
            *rows(name, "did you mean 'one'", CALL, interrupt_before=["oen"]),
            *rows(name, "did you mean 'one'", CALL, interrupt_after="oen"),
            *rows(name, "the state has no key", CALL, output_keys=["oen"]),
            *rows(name, "use one or several", CALL, print_mode="update"),
            *rows(name, "True or False", CALL, debug=3),
            *rows(name, NEAR, CALL, interupt_before=["one"]),
        )
    ),
    *rows("graph.stream", "use one or several", CALL, stream_mode="update"),
    *rows("graph.stream", "True or False", CALL, subgraphs=3),
    *rows("graph.stream", "some of", CALL, channels=["message"]),
    *rows("ToolNode", MUST, tools=3, name=3, tags="a", handle_tool_errors=3, messages_key=3),
    *rows("ToolNode", MUST, wrap_tool_call=3, awrap_tool_call=3),
    *rows("ToolNode", NEAR, handle_tool_error=True),
    *rows("tool", MUST, description=3, args_schema=3, infer_schema="x", parse_docstring="x"),
    *rows("tool", MUST, error_on_invalid_docstring="x"),
    *rows("tool", "a function or a runnable", name_or_callable=3),
    *rows("tool", "needs a name", runnable=3),
    *rows("tool", NEAR, retrun_direct=True),
    *rows("StructuredTool", INPUT, name=3, description=3, func=3, coroutine=3),
    *rows("StructuredTool", MUST, args_schema=3),
    *rows("StructuredTool", NEAR, retrun_direct=True),
    *rows("StructuredTool.from_function", MUST, name=3, description=3, return_direct="maybe"),
    *rows("StructuredTool.from_function", MUST, args_schema=3, infer_schema="x"),
    *rows("StructuredTool.from_function", MUST, response_format="text", parse_docstring="x"),
    *rows("StructuredTool.from_function", MUST, error_on_invalid_docstring="x"),
    *rows("StructuredTool.from_function", INPUT, func=3, coroutine=3),
    *rows("StructuredTool.from_function", NEAR, handle_tool_eror=True),
    *rows("BaseTool", INPUT, name=3, description=3),
    *rows("BaseTool", MUST, args_schema=3),
    *rows("BaseTool", NEAR, descripton="x"),
    *(
        row
        for name in ("tool", "StructuredTool", "BaseTool")
        for row in rows(name, "", **TOOL_FIELDS)
    ),
]
