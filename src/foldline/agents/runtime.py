"""What a tool or a hook may ask of the run it is in: context, store, config, state, and ways to say something.

A tool gets it by its annotation: `runtime: ToolRuntime`, or `Annotated[dict, InjectedState]` for the state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, get_args, get_origin

from foldline._config import RunnableConfig
from foldline.tools._arguments import read_arguments
from foldline.tools.base import BaseTool, InjectedToolArg, _DirectlyInjectedToolArg

__all__ = [
    "InjectedState",
    "InjectedStore",
    "Runtime",
    "ToolRuntime",
    "injected_values",
    "injections_of",
]

ContextT = TypeVar("ContextT")


def _ignore(_: object) -> None:
    """Nobody listens."""


@dataclass(slots=True)
class Runtime(Generic[ContextT]):
    """What a middleware hook may ask of its run."""

    context: ContextT | None = None
    """What the caller gave as `context=`."""
    store: Any = None
    stream_writer: Callable[[Any], None] = _ignore
    """Sends anything to whoever streams the run (`stream_mode="custom"`)."""
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig())
    thread_id: str | None = None
    namespace: tuple[str, ...] = ()


@dataclass(slots=True)
class ToolRuntime(_DirectlyInjectedToolArg, Generic[ContextT]):
    """What a tool may ask of the agent that runs it; injected where a parameter has this type."""

    state: dict[str, Any] = field(default_factory=dict)
    context: ContextT | None = None
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig())
    stream_writer: Callable[[Any], None] = _ignore
    tool_call_id: str | None = None
    store: Any = None
    emit_output_delta: Callable[[str], None] = _ignore
    """Sends a piece of the tool's output before it is finished, as a `tool-output-delta` event."""


class InjectedState(InjectedToolArg):
    """Mark a tool's argument that is the agent's state, or one key of it: `InjectedState("messages")`."""

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(InjectedToolArg):
    """Mark a tool's argument that is the agent's store."""


Injection = tuple[str, str, str | None]
"""The argument, what it gets ("runtime", "state", "store"), and the key of the state."""


def injections_of(tool: BaseTool) -> list[Injection]:
    """Find which arguments of a tool an agent fills in; read once per agent."""
    if not tool.injected_args:
        return []
    found: list[Injection] = []
    for function in tool._functions():
        if function is None:
            continue
        for argument in read_arguments(function):
            kind = _kind(argument.annotation)
            if kind is not None and (argument.name, *kind) not in found:
                found.append((argument.name, *kind))
    return found


def _kind(annotation: object) -> tuple[str, str | None] | None:
    bare = annotation if isinstance(annotation, type) else get_origin(annotation)
    if isinstance(bare, type) and issubclass(bare, ToolRuntime):
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


def injected_values(injections: list[Injection], runtime: ToolRuntime[Any]) -> Mapping[str, Any]:
    """Return the values of the injected arguments."""
    values: dict[str, Any] = {}
    for name, kind, key in injections:
        if kind == "runtime":
            values[name] = runtime
        elif kind == "store":
            values[name] = runtime.store
        else:
            values[name] = runtime.state if key is None else runtime.state.get(key)
    return values
