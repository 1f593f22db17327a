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

EventsVersion: TypeAlias = Literal["v1", "v2", "v3"]
"""What `astream_events` returns: "v1" and "v2" are these events, "v3" is the event stream of a chat model."""


class EventData(TypedDict):
    """The data of an event; which keys there are depends on its kind."""

    input: Any
    """The input of the runnable; known only at the end if it was streamed."""
    error: NotRequired[BaseException]
    """The error, if it failed."""
    output: Any
    """The final output."""
    chunk: Any
    """A chunk of the output."""
    tool_call_id: NotRequired[str | None]
    """The id of the call that a tool failed on."""


class BaseStreamEvent(TypedDict):
    """The fields of all events."""

    event: str
    """`on_<kind>_<start|stream|end>`: `on_chat_model_stream`, `on_chain_end`."""
    run_id: str
    """The id of the run."""
    tags: NotRequired[list[str]]
    """The run's tags."""
    metadata: NotRequired[dict[str, Any]]
    """The run's metadata."""
    parent_ids: Sequence[str]
    """The ids of the parent runs, the outermost first; empty in version 1."""


class StandardStreamEvent(BaseStreamEvent):
    """A runnable started, yielded a chunk or ended."""

    data: EventData
    """The data of the event."""
    name: str
    """The name of the runnable."""


class CustomStreamEvent(BaseStreamEvent):
    """An event of `dispatch_custom_event`."""

    event: Literal["on_custom_event"]  # type: ignore[misc]
    """The fixed name of this kind of event."""
    name: str
    """The name passed to `dispatch_custom_event`."""
    data: Any
    """The data passed to `dispatch_custom_event`."""


StreamEvent: TypeAlias = StandardStreamEvent | CustomStreamEvent
