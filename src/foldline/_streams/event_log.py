"""Stores the events of one stream for replay in little memory.

A long answer is mostly slices of one block. Runs of such slices are stored as a list of strings under one header, and
the event dicts are created again for every reader, so that a reader that changes an event affects no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, assert_never, cast

from foldline.protocol.events import DELTA_FIELDS, DELTA_KINDS, DeltaKind, Event
from foldline.protocol.merge import copy_json


def _field_of(kind: DeltaKind) -> str | None:
    """Return the field whose slices are stored without their headers; None if the event is stored complete."""
    match kind:
        case "text-delta" | "reasoning-delta" | "refusal-delta" | "data-delta" | "tool-call-delta":
            return DELTA_FIELDS[kind][0]
        case "block-delta":
            return None
        case _:
            assert_never(kind)


FIELDS: Final[dict[str, str | None]] = {kind: _field_of(kind) for kind in DELTA_KINDS}


class _Slices:
    __slots__ = ("field", "index", "kind", "parts")

    def __init__(self, index: int, kind: str, field: str) -> None:
        self.index = index
        self.kind = kind
        self.field = field
        self.parts: list[str] = []


class EventLog:
    """Grows by events; any number of cursors read it from the start."""

    def __init__(self) -> None:
        self._entries: list[Event | _Slices] = []
        self._tail: _Slices | None = None
        self.count: int = 0

    def append(self, event: Mapping[str, Any]) -> None:
        """Store an event."""
        self.count += 1
        if event["event"] == "content-block-delta":
            delta = event["delta"]
            if len(delta) == 2:
                kind, tail = delta["type"], self._tail
                if tail is not None and tail.kind == kind and tail.index == event["index"]:
                    tail.parts.append(delta[tail.field])
                    return
                if field := FIELDS.get(kind):
                    self._tail = _Slices(event["index"], kind, field)
                    self._tail.parts.append(delta[field])
                    self._entries.append(self._tail)
                    return
        self._tail = None
        self._entries.append(copy_json(event))

    def cursor(self) -> EventCursor:
        """Return a reader that begins at the first event."""
        return EventCursor(self._entries)

    def read(
        self, request_more: Callable[[], bool], at_end: Callable[[], None] | None = None
    ) -> Iterator[Event]:
        """Yield every event, calling `request_more` at the end until it returns False."""
        entries, position, is_over = self._entries, 0, False
        while True:
            if position == len(entries):
                if is_over:
                    if at_end is not None:
                        at_end()
                    return
                is_over = not request_more()
                continue
            entry = entries[position]
            position += 1
            if type(entry) is not _Slices:
                yield cast("Event", copy_json(entry))
                continue
            index, kind, field, parts = entry.index, entry.kind, entry.field, entry.parts
            slice_index = 0
            while True:
                if slice_index < len(parts):
                    event: Any = {
                        "event": "content-block-delta",
                        "index": index,
                        "delta": {"type": kind, field: parts[slice_index]},
                    }
                    slice_index += 1
                    yield event
                elif is_over or position < len(entries):
                    break
                else:
                    is_over = not request_more()


class EventCursor:
    """Reads a log that may still grow: `take` returns the next event, or None if there is none yet."""

    __slots__ = ("_entries", "_entry", "_slice")

    def __init__(self, entries: list[Event | _Slices]) -> None:
        self._entries = entries
        self._entry = 0
        self._slice = 0

    def take(self) -> Event | None:
        """Return the next event, if there is one."""
        while self._entry < len(self._entries):
            entry = self._entries[self._entry]
            if type(entry) is not _Slices:
                self._entry += 1
                return cast("Event", copy_json(entry))
            slice_index = self._slice
            if slice_index < len(entry.parts):
                self._slice = slice_index + 1
                delta = {"type": entry.kind, entry.field: entry.parts[slice_index]}
                event = {"event": "content-block-delta", "index": entry.index, "delta": delta}
                return cast("Event", event)
            if self._entry == len(self._entries) - 1:
                return None
            self._entry += 1
            self._slice = 0
        return None

    def __iter__(self) -> Iterator[Event]:
        while (event := self.take()) is not None:
            yield event
