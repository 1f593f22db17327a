"""Cuts a stream in another way: for tests that a message does not depend on how it is sliced. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, cast

from foldline.language_models._call.bridge import ChunkBridge
from foldline.messages._view import ChunkView
from foldline.outputs import ChatGenerationChunk
from foldline.protocol.events import DELTA_FIELDS, Event
from foldline.protocol.writer import EventWriter

MAX_SLICE = 12
"""Characters in the longest slice."""


def rechunk_events(events: Iterable[Event], seed: int) -> list[Event]:
    """Return the events with new slices: neighbouring slices are joined, then cut at random positions."""
    random_source = random.Random(seed)
    cut_events: list[Event] = []
    run: list[dict[str, Any]] = []
    for event in cast("Iterable[dict[str, Any]]", events):
        if run and not _continues(run[-1], event):
            cut_events += _slice_again(run, random_source)
            run = []
        if _is_slice(event):
            run.append(event)
        else:
            cut_events.append(cast("Event", event))
    return cut_events + _slice_again(run, random_source)


def bridge_events(events: Iterable[Event]) -> list[Event]:
    """Convert events to v1 chunks and back: the events of a `_stream` with the same content."""
    view, bridge = ChunkView("v1"), ChunkBridge(EventWriter())
    bridged_events: list[Event] = []
    for event in events:
        chunk = view.feed(cast("dict[str, Any]", event))
        if chunk is not None:
            bridged_events += bridge.feed(ChatGenerationChunk(message=chunk))
    return bridged_events + bridge.end()


def _is_slice(event: dict[str, Any]) -> bool:
    return event["event"] == "content-block-delta" and event["delta"]["type"] in DELTA_FIELDS


def _continues(previous: dict[str, Any], event: dict[str, Any]) -> bool:
    if not _is_slice(event) or event["index"] != previous["index"]:
        return False
    return bool(event["delta"]["type"] == previous["delta"]["type"])


def _slice_again(run: Sequence[dict[str, Any]], random_source: random.Random) -> list[Event]:
    if not run:
        return []
    kind = run[0]["delta"]["type"]
    field = DELTA_FIELDS[kind][0]
    text = "".join(event["delta"][field] for event in run)
    slices, start = [], 0
    while start < len(text):
        end = start + random_source.randint(1, MAX_SLICE)
        slices.append(text[start:end])
        start = end
    return [cast("Event", {**run[0], "delta": {"type": kind, field: slice_}}) for slice_ in slices]
