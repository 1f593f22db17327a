"""`NodeSpec`: a node of a graph: its function, its input, and the targets that its annotations declare."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import (
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import typing_extensions
from pydantic import BaseModel

from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.graph._subgraphs import subgraphs_of
from foldline.graph.runtime import Runtime, wanted_arguments, with_namespace
from foldline.graph.schema import ROOT, StateKeys, keys_of
from foldline.graph.types import CachePolicy, RetryPolicy
from foldline.runnables.base import Runnable
from foldline.workflows.interrupts import Command
from foldline.workflows.retry import policies_of

__all__ = ["InputShape", "NodeSpec", "call_function", "literal_values", "name_of"]

Values = dict[str, Any]
CALL = "__call__"


class InputShape:
    """The part of the state that a node receives, and its form."""

    def __init__(self, schema: Any, keys: StateKeys) -> None:  # noqa: ANN401  a TypedDict, a model or a dataclass
        self.schema = schema
        self.names: list[str] = [key for key in keys_of(schema) if key in keys.types]
        self.managed = {key: value for key, value in keys.managed.items() if key in keys_of(schema)}
        self.is_root: bool = ROOT in keys_of(schema)
        self.is_dict: bool = not self.is_root and (
            is_typeddict(schema)
            or not (issubclass(schema, BaseModel) or dataclasses.is_dataclass(schema))
        )

    def read(self, values: Values, managed: Callable[[str], Any]) -> object:
        """Return the state in the form of the schema."""
        if self.is_root:
            return values.get(ROOT)
        selected = {key: values[key] for key in self.names if key in values}
        for key, managed_value in self.managed.items():
            selected[key] = managed(managed_value.name)
        return selected if self.is_dict else self.schema(**selected)


class NodeSpec:
    """A node of a graph."""

    def __init__(
        self,
        name: str,
        action: Any,  # noqa: ANN401  a function or a runnable
        *,
        input_schema: object = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        timeout: float | None = None,
        defer: bool = False,
        metadata: dict[str, Any] | None = None,
        destinations: Collection[str] | Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.action = action
        self.is_runnable: bool = isinstance(action, Runnable)
        if not self.is_runnable and not callable(action):
            raise UsageError(
                f"the action of the node {name!r} is a {type(action).__name__}: pass a function or a runnable"
            )
        self.function: Any = None if self.is_runnable else _check_action(action, name)
        self.wants, self.count = ((), 1) if self.is_runnable else wanted_arguments(action)
        self.input_schema = input_schema or _input_schema(action)
        self.shape: InputShape | None = None
        self.retry = policies_of(retry_policy)
        self.cache_policy = cache_policy
        self.timeout = timeout
        self.defer = defer
        self.metadata = metadata
        self.destinations = _destinations(action, destinations)
        self.may_go_anywhere: bool = self.destinations is None and _mentions_command(action)

    @property
    def is_graph(self) -> bool:
        """Whether the node is a graph."""
        return hasattr(self.action, "graph_nodes")

    @cached_property
    def subgraphs(self) -> list[Runnable[Any, Any]]:
        """The graphs that the node runs: itself, or those that its code names."""
        return subgraphs_of(self.action)

    @property
    def bound(self) -> object:
        """The function or runnable of the node."""
        return self.action

    async def call(self, value: object, run: Run, runtime: Runtime[Any]) -> object:
        """Run the node."""
        if self.is_runnable:
            return await self.action._step(value, run.child())
        return await call_function(self.function, self.wants, self.count, value, run, runtime)


async def call_function(
    function: Callable[..., Any],
    wants: tuple[str, ...],
    count: int,
    value: object,
    run: Run,
    runtime: Runtime[Any],
) -> object:
    """Call the function of a node or a branch with the arguments that its parameters request."""
    if not wants:
        return await run.io.call(function, value) if count else await run.io.call(function)
    arguments: dict[str, Any] = {}
    for name in wants:
        if name == "config":
            task_values = (runtime.config or {}).get("configurable", {})
            arguments[name] = with_namespace(run.config(), task_values.get("checkpoint_ns"))
        elif name == "runtime":
            arguments[name] = runtime
        elif name == "writer":
            arguments[name] = runtime.stream_writer
        else:
            arguments[name] = getattr(runtime, name)
    return await run.io.call(function, value, **arguments)


def name_of(action: object) -> str:
    """Return the name of a function or a runnable."""
    while isinstance(action, partial):
        action = action.func
    if isinstance(action, Runnable):
        return action.get_name()
    return getattr(action, "__name__", None) or type(action).__name__


def _check_action(action: object, name: str) -> object:
    if isinstance(action, type):
        raise UsageError(f"the node {name!r} is a class: pass a function, or a callable instance")
    return action


def _input_schema(action: Callable[..., Any] | Runnable[Any, Any]) -> object:
    if isinstance(action, Runnable):
        return None
    target: Any = action if inspect.isroutine(action) else getattr(action, CALL, action)
    try:
        parameters = list(inspect.signature(target).parameters)
        hint = get_type_hints(inspect.unwrap(target)).get(parameters[0]) if parameters else None
    except (TypeError, ValueError, NameError, AttributeError):
        return None
    is_schema = isinstance(hint, type) and (
        typing_extensions.is_typeddict(hint) or dataclasses.is_dataclass(hint) or issubclass(hint, BaseModel)
    )  # fmt: skip
    return hint if is_schema else None


def literal_values(annotation: object) -> list[str] | None:
    """Return the names in a Literal, or in a list or union of Literals; None if there are none."""
    if get_origin(annotation) is Literal:
        return [value for value in get_args(annotation) if isinstance(value, str)]
    nested = [literal_values(part) for part in get_args(annotation)]
    names = [name for part in nested if part for name in part]
    return names or None


def _returns(action: Callable[..., Any] | Runnable[Any, Any]) -> object:
    target: Any = action if inspect.isroutine(action) else getattr(action, CALL, action)
    try:
        return get_type_hints(inspect.unwrap(target)).get("return")
    except (TypeError, NameError, AttributeError):
        return None


def _destinations(
    action: Callable[..., Any] | Runnable[Any, Any],
    declared: Collection[str] | Mapping[str, str] | None,
) -> dict[str, str | None] | None:
    if declared is not None:
        return dict(declared) if isinstance(declared, Mapping) else dict.fromkeys(declared)
    if isinstance(action, Runnable):
        return None
    hint = _returns(action)
    parts = (
        get_args(hint)
        if get_origin(hint) is Union or type(hint).__name__ == "UnionType"
        else (hint,)
    )
    for part in parts:
        if get_origin(part) is Command:
            names = literal_values(get_args(part)[0])
            return None if names is None else dict.fromkeys(names)
    return None


def _mentions_command(action: Callable[..., Any] | Runnable[Any, Any]) -> bool:
    """Whether a node may return a Command whose targets are not declared."""
    if isinstance(action, Runnable):
        return not hasattr(action, "graph_nodes")
    target = inspect.unwrap(
        action if inspect.isroutine(action) else getattr(type(action), CALL, action)
    )
    code = getattr(target, "__code__", None)
    return code is None or "Command" in code.co_names or "Command" in code.co_freevars
