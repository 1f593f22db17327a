"""The runtime of a node: its context, store, config and stream writer, by its parameters or `get_runtime()`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from foldline._config import RunnableConfig, ensure_config
from foldline.exceptions import UsageError
from foldline.utils.short_repr import fields_repr
from foldline.utils.signature import show_defaults
from foldline.workflows.scope import current_scope

__all__ = [
    "ExecutionInfo",
    "Runtime",
    "current_task",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "wanted_arguments",
]

ContextT = TypeVar("ContextT")


def _write_nothing(_: object) -> None:
    """Do nothing: the run is not streamed."""


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """The running task and its thread."""

    thread_id: str | None
    task_id: str
    checkpoint_ns: str
    step: int


@show_defaults
@dataclass(slots=True)
class Runtime(Generic[ContextT]):
    """The runtime of a node."""

    __repr__ = fields_repr

    context: ContextT | Any = None
    """The caller's `context=` argument."""
    store: Any = None
    stream_writer: Callable[[Any], None] = _write_nothing
    """Sends a value to the caller's stream (`stream_mode="custom"`)."""
    previous: Any = None
    """The value that the last run of an entrypoint on this thread saved."""
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig())
    execution_info: ExecutionInfo | None = None


current_task: ContextVar[Runtime[Any] | None] = ContextVar("foldline_graph_task", default=None)


def get_runtime(context_schema: type | None = None) -> Runtime[Any]:
    """Return the runtime of the current node."""
    runtime = current_task.get()
    if runtime is not None:
        return runtime
    scope = current_scope.get()
    if scope is None:
        raise UsageError("get_runtime() works inside a node of a graph, an entrypoint or a task")
    flow = scope.flow
    return Runtime(flow.context, flow.store, flow.write or _write_nothing, flow.previous)


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


ARGUMENTS = ("config", "runtime", "writer", "store", "previous")


def wanted_arguments(function: Callable[..., Any]) -> tuple[tuple[str, ...], int]:
    """Return the names of the parameters besides the state that a function has, and the number of all parameters."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return (), 1
    names = tuple(item.name for item in parameters[1:] if item.name in ARGUMENTS)
    return names, len(parameters)
