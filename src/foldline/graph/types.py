"""The small values of graphs: where to go, what a thread looks like, how a node is cached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from foldline._config import RunnableConfig
from foldline.workflows.interrupts import Command, Interrupt, interrupt
from foldline.workflows.retry import RetryPolicy, default_retry_on

__all__ = [
    "END",
    "START",
    "CachePolicy",
    "Command",
    "Durability",
    "GraphTask",
    "Interrupt",
    "Overwrite",
    "PregelTask",
    "RetryPolicy",
    "Send",
    "StateSnapshot",
    "default_retry_on",
    "interrupt",
]

START = "__start__"
END = "__end__"
Durability = Literal["sync", "async", "exit"]


@dataclass(slots=True)
class Send:
    """Run a node with an input of its own, beside the others of the next step."""

    node: str
    arg: Any


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A value that replaces what is there, past the key's reducer."""

    value: Any


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Keep a node's result for the same input, in the graph's cache."""

    key_func: Callable[..., str | bytes] | None = None
    """Makes the key from the node's input; by default the input itself, written down."""
    ttl: int | None = None
    """Seconds that a result is kept."""


@dataclass(frozen=True, slots=True)
class GraphTask:
    """A node that comes, or that stopped for a person."""

    id: str
    name: str
    path: tuple[Any, ...] = ()
    error: Exception | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    """The state of the graph inside, where the node is one: a snapshot, or the config to ask for it."""
    result: Any = None


PregelTask = GraphTask


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """Where a thread stands, or stood."""

    values: Any
    next: tuple[str, ...]
    config: RunnableConfig
    """Names this checkpoint: give it to `invoke` or `update_state` to go on from here."""
    metadata: dict[str, Any] | None = None
    created_at: str | None = None
    parent_config: RunnableConfig | None = None
    tasks: tuple[GraphTask, ...] = ()
    interrupts: tuple[Interrupt, ...] = field(default=())
