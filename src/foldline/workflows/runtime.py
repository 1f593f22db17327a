"""`Runtime`: the context, store, config and stream writer of the code that a graph or an agent runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Generic, TypeVar, is_typeddict

from pydantic import BaseModel

from foldline._config import RunnableConfig
from foldline.exceptions import UsageError
from foldline.utils._short_repr import fields_repr
from foldline.utils._signature import show_defaults

__all__ = [
    "ExecutionInfo",
    "Runtime",
]

ContextT = TypeVar("ContextT")


def write_nothing(_: object) -> None:
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
    """The runtime of a node, a tool or a hook: what `get_runtime()` returns."""

    __repr__ = fields_repr

    context: ContextT | Any = None
    """The caller's `context=` argument."""
    store: Any = None
    stream_writer: Callable[[Any], None] = write_nothing
    """Sends a value to the caller's stream (`stream_mode="custom"`)."""
    previous: Any = None
    """The value that the last run of an entrypoint on this thread saved."""
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig())
    execution_info: ExecutionInfo | None = None


current_task: ContextVar[Runtime[Any] | None] = ContextVar("foldline_graph_task", default=None)
"""The runtime of the code that is running; None outside graphs and agents."""


def read_context(schema: type | None, value: object, owner: str) -> object:
    """Return the `context=` of a call in the form of its schema: a dict becomes a dataclass or a model."""
    if schema is None or value is None or not isinstance(schema, type):
        return value
    name = schema.__name__
    if is_typeddict(schema):
        if isinstance(value, Mapping):
            return value
    elif isinstance(value, schema):
        return value
    elif isinstance(value, Mapping) and (is_dataclass(schema) or issubclass(schema, BaseModel)):
        try:
            return schema(**value)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{owner}: context= does not fit {name}: {error}") from error
    raise UsageError(
        f"{owner}: context={value!r:.80} is no {name}, the context_schema: pass context={name}(…)"
    )
