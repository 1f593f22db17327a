"""The runtime of tools and hooks: the context, store, config, state and stream writer of their run.

A tool receives it by annotation: `runtime: ToolRuntime`, or `Annotated[dict, InjectedState]` for the state only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, get_args, get_origin

from foldline._config import RunnableConfig
from foldline.tools._arguments import _DirectlyInjectedToolArg, read_arguments
from foldline.tools.base import BaseTool, InjectedToolArg
from foldline.utils._short_repr import fields_repr
from foldline.utils._signature import show_defaults

__all__ = [
    "InjectedState",
    "InjectedStore",
    "Runtime",
    "ToolRuntime",
]

ContextT = TypeVar("ContextT")


def _ignore(_: object) -> None:
    """Do nothing: the run is not streamed."""


@show_defaults
@dataclass(slots=True)
class Runtime(Generic[ContextT]):
    """The runtime of a middleware hook."""

    __repr__ = fields_repr

    context: ContextT | None = None
    """The caller's `context=` argument."""
    store: Any = None
    stream_writer: Callable[[Any], None] = _ignore
    """Sends a value to the caller's stream (`stream_mode="custom"`)."""
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig())
    thread_id: str | None = None
    namespace: tuple[str, ...] = ()


@show_defaults
@dataclass(slots=True)
class ToolRuntime(_DirectlyInjectedToolArg, Generic[ContextT]):
    """The runtime of a tool; injected into a parameter of this type."""

    __repr__ = fields_repr

    state: dict[str, Any] = field(default_factory=dict)
    context: ContextT | None = None
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig())
    stream_writer: Callable[[Any], None] = _ignore
    tool_call_id: str | None = None
    store: Any = None
    emit_output_delta: Callable[[str], None] = _ignore
    """Sends a piece of the tool's output before the tool finishes, as a `tool-output-delta` event."""
    tools: list[Any] = field(default_factory=list)
    """The tools that run beside this one."""


class InjectedState(InjectedToolArg):
    """Mark a tool's argument that is the agent's state, or one key of it: `InjectedState("messages")`."""

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(InjectedToolArg):
    """Mark a tool's argument that is the agent's store."""


Injection = tuple[str, str, str | None]
"""The argument, what is injected ("runtime", "state", "store"), and the key of the state."""


def injections_of(tool: BaseTool) -> list[Injection]:
    """Return the arguments of a tool that an agent injects; computed once per agent."""
    if not tool.injected_args:
        return []
    injections: list[Injection] = []
    for function in tool._functions():
        if function is None:
            continue
        for argument in read_arguments(function):
            kind = _kind(argument.annotation)
            if kind is not None and (argument.name, *kind) not in injections:
                injections.append((argument.name, *kind))
    return injections


def _kind(annotation: object) -> tuple[str, str | None] | None:
    base_type = annotation if isinstance(annotation, type) else get_origin(annotation)
    if isinstance(base_type, type) and issubclass(base_type, ToolRuntime):
        return "runtime", None
    for part in get_args(annotation):
        if (isinstance(part, type) and issubclass(part, ToolRuntime)) or part is ToolRuntime:
            return "runtime", None
        if part is InjectedState or isinstance(part, InjectedState):
            return "state", getattr(part, "field", None) if isinstance(
                part, InjectedState
            ) else None
        if part is InjectedStore or isinstance(part, InjectedStore):
            return "store", None
    return None


def _value(state: object, key: str) -> object:
    """Return the value of a key of a state: a dict, a model or a dataclass."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def injected_values(injections: list[Injection], runtime: ToolRuntime[Any]) -> Mapping[str, Any]:
    """Return the values of the injected arguments."""
    values: dict[str, Any] = {}
    for name, kind, key in injections:
        if kind == "runtime":
            values[name] = runtime
        elif kind == "store":
            values[name] = runtime.store
        else:
            values[name] = runtime.state if key is None else _value(runtime.state, key)
    return values
