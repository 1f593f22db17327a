"""The events of `astream_events`, as types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

__all__ = [
    "BaseStreamEvent",
    "CustomStreamEvent",
    "EventData",
    "StandardStreamEvent",
    "StreamEvent",
]


class EventData(TypedDict, total=False):
    """What an event is about."""

    input: Any
    """What the runnable was given; known at the end where it was streamed."""
    error: NotRequired[BaseException]
    """Why it failed."""
    output: Any
    """What it gave in the end."""
    chunk: Any
    """A piece of its output."""
    tool_call_id: NotRequired[str | None]
    """The call that a tool failed on."""


class BaseStreamEvent(TypedDict):
    """What all events have."""

    event: str
    """`on_<kind>_<start|stream|end>`: `on_chat_model_stream`, `on_chain_end`."""
    run_id: str
    """Which run."""
    tags: NotRequired[list[str]]
    """The run's tags."""
    metadata: NotRequired[dict[str, Any]]
    """The run's metadata."""
    parent_ids: Sequence[str]
    """The runs around it, the outermost first; empty in version 1."""


class StandardStreamEvent(BaseStreamEvent):
    """A runnable started, gave a piece or ended."""

    data: EventData
    """What it is about."""
    name: str
    """The name of the runnable."""


class CustomStreamEvent(BaseStreamEvent):
    """Somebody called `dispatch_custom_event`."""

    event: Literal["on_custom_event"]  # type: ignore[misc]
    """Always this."""
    name: str
    """The name given."""
    data: Any
    """What was given with it."""


StreamEvent: TypeAlias = StandardStreamEvent | CustomStreamEvent
