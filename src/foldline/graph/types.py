"""The data classes of graphs: `Send`, `Command`, `StateSnapshot`, `CachePolicy` and others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from typing_extensions import TypeVar

from foldline._config import RunnableConfig
from foldline.workflows.interrupts import Command, Interrupt, interrupt, is_invalid_resume
from foldline.workflows.retry import RetryPolicy, default_retry_on

__all__ = [
    "END",
    "START",
    "CachePolicy",
    "Command",
    "Durability",
    "Interrupt",
    "Overwrite",
    "PregelTask",
    "RetryPolicy",
    "Send",
    "StateSnapshot",
    "StateUpdate",
    "TaskError",
    "default_retry_on",
    "interrupt",
    "is_invalid_resume",
]

StateT = TypeVar("StateT", default=Any)
ContextT = TypeVar("ContextT", default=Any)
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)
START = "__start__"
END = "__end__"
Durability = Literal["sync", "async", "exit"]


@dataclass(slots=True)
class Send:
    """Runs a node with its own input in the next step."""

    node: str
    arg: Any


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A value that replaces the old one without the key's reducer."""

    value: Any


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Caches a node's result for the same input, in the graph's cache."""

    key_func: Callable[..., str | bytes] | None = None
    """Makes the key from the node's input; by default the input as JSON."""
    ttl: int | None = None
    """Seconds until a result expires."""


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """A change of `bulk_update_state`: the values, and the node that they count as."""

    values: Any
    as_node: str | None = None
    task_id: str | None = None


class TaskError(str):
    """The error of a task as text; `exception` is the error itself."""

    __slots__ = ("exception",)
    exception: Exception

    def __new__(cls, exception: Exception) -> TaskError:
        """Return the text of an error."""
        text = super().__new__(cls, repr(exception))
        text.exception = exception
        return text


@dataclass(frozen=True, slots=True)
class GraphTask:
    """A task of the next step, or one that stopped for a person."""

    id: str
    name: str
    path: tuple[Any, ...] = ()
    error: TaskError | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    """The state of a nested graph: a snapshot, or the config to get it."""
    result: Any = None


PregelTask = GraphTask


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The state of a thread at a checkpoint."""

    values: Any
    next: tuple[str, ...]
    config: RunnableConfig
    """Identifies this checkpoint: pass it to `invoke` or `update_state` to continue from here."""
    metadata: dict[str, Any] | None = None
    created_at: str | None = None
    parent_config: RunnableConfig | None = None
    tasks: tuple[GraphTask, ...] = ()
    interrupts: tuple[Interrupt, ...] = field(default=())
