"""The events of the log as JSON: each is encoded once, and the log, its readers and the wires share the bytes.

A row of the log is an array of events with a line for each, so that it is cut into events without being parsed. What is
shown to nobody is not parsed at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, TypeAlias

from pydantic_core import PydanticSerializationError, from_json, to_json

from foldline.serve._json_object import JsonObject
from foldline.workflows._run_events import jsonable

__all__ = [
    "EncodedEvent",
    "Events",
    "decode_event",
    "encode_event",
    "join_events",
    "method_of",
    "split_events",
]

EncodedEvent: TypeAlias = bytes
"""The JSON of one event, without spaces; it begins with the method."""
Events: TypeAlias = list[tuple[int, EncodedEvent]]
"""Events with their numbers."""
BEFORE_METHOD: Final = b'{"method":"'
BETWEEN: Final = b",\n"


def encode_event(event: JsonObject) -> EncodedEvent:
    """Return an event as JSON."""
    try:
        return to_json(event)
    except (
        PydanticSerializationError,
        ValueError,
    ):  # it has other objects, or halves of characters
        return json.dumps(jsonable(event), separators=(",", ":"), default=str).encode()


def decode_event(data: EncodedEvent) -> JsonObject:
    """Return an event of the log."""
    try:
        event: JsonObject = from_json(data)
    except ValueError:  # it has halves of characters
        event = json.loads(data)
    return event


def method_of(data: EncodedEvent) -> bytes:
    """Return the method of an event, which is not parsed."""
    start = len(BEFORE_METHOD)
    return data[start : data.index(b'"', start)]


def join_events(events: Sequence[EncodedEvent]) -> str:
    """Return a row of the log."""
    return f"[{BETWEEN.join(events).decode()}]"


def split_events(row: str, count: int) -> list[EncodedEvent]:
    """Return the events of a row, which has so many."""
    data = row[1:-1].encode()
    if count == 1:
        return [data]
    events = data.split(BETWEEN)
    if len(events) == count:
        return events
    # Of an older version, which wrote them on one line.
    decoded: list[JsonObject] = json.loads(row)
    return [encode_event(event) for event in decoded]
