"""The runtime of a node: its context, store, config and stream writer, by its parameters or `get_runtime()`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from foldline._config import RunnableConfig, ensure_config
from foldline.exceptions import UsageError
from foldline.workflows._flow_scope import current_scope
from foldline.workflows.runtime import ExecutionInfo, Runtime, current_task, write_nothing

__all__ = [
    "ExecutionInfo",
    "Runtime",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
]


def get_runtime(context_schema: type | None = None) -> Runtime[Any]:
    """Return the runtime of the node, or of the agent's step, whose code is running."""
    runtime = current_task.get()
    if runtime is not None:
        return runtime
    scope = current_scope.get()
    if scope is None:
        raise UsageError(
            "get_runtime() works inside a node of a graph, a tool or a hook of an agent, an entrypoint or a task: "
            "call it there, or in a thread that was started with contextvars.copy_context().run"
        )
    flow = scope.flow
    return Runtime(flow.context, flow.store, flow.write or write_nothing, flow.previous)


def get_stream_writer() -> Callable[[Any], None]:
    """Return the function that sends to `stream_mode="custom"`."""
    return get_runtime().stream_writer


def get_store() -> Any:  # noqa: ANN401  a store, whose class is of a layer above
    """Return the store that the graph was compiled with."""
    return get_runtime().store


def get_config() -> RunnableConfig:
    """Return the config of the current run."""
    runtime = current_task.get()
    return ensure_config() if runtime is None else ensure_config(runtime.config)


def with_namespace(config: RunnableConfig | None, namespace: str | None) -> RunnableConfig:
    """Return a config with the namespace of a task."""
    config = config or {}
    if namespace is None:
        return config
    configurable = {**config.get("configurable", {}), "checkpoint_ns": namespace}
    return {**config, "configurable": configurable}


current_state: ContextVar[Callable[[], Any] | None] = ContextVar(
    "foldline_graph_state", default=None
)
"""Returns the state of the graph whose task is running, in the form of its schema."""


def read_state() -> Any:  # noqa: ANN401  a state in the form of its schema
    """Return the state before the running task of a graph, also for a task that a `Send` gave another input."""
    read = current_state.get()
    return None if read is None else read()


ARGUMENTS = ("config", "runtime", "writer", "store", "previous")


def wanted_arguments(function: Callable[..., Any]) -> tuple[tuple[str, ...], int]:
    """Return the names of the parameters besides the state that a function has, and the number of all parameters."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return (), 1
    names = tuple(item.name for item in parameters[1:] if item.name in ARGUMENTS)
    return names, len(parameters)
