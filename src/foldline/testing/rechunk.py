"""The same stream, cut otherwise: for tests that what a message says does not depend on how it was sliced. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, cast

from foldline.language_models.call.chunk_bridge import ChunkBridge
from foldline.messages._view import ChunkView
from foldline.outputs import ChatGenerationChunk
from foldline.protocol.events import DELTA_FIELDS, Event
from foldline.protocol.writer import EventWriter

LONGEST = 12
"""Characters of the longest slice."""


def rechunked(events: Iterable[Event], seed: int) -> list[Event]:
    """Cut the slices of every block anew: joined where they follow one another, then cut at random places."""
    chance = random.Random(seed)
    cut: list[Event] = []
    run: list[dict[str, Any]] = []
    for event in cast("Iterable[dict[str, Any]]", events):
        if run and not _continues(run[-1], event):
            cut += _sliced(run, chance)
            run = []
        if _is_slice(event):
            run.append(event)
        else:
            cut.append(cast("Event", event))
    return cut + _sliced(run, chance)


def bridged(events: Iterable[Event]) -> list[Event]:
    """Show events as v1 chunks and make events of those again: what a `_stream` with the same words would give."""
    view, bridge = ChunkView("v1"), ChunkBridge(EventWriter())
    made: list[Event] = []
    for event in events:
        chunk = view.feed(cast("dict[str, Any]", event))
        if chunk is not None:
            made += bridge.feed(ChatGenerationChunk(message=chunk))
    return made + bridge.end()


def _is_slice(event: dict[str, Any]) -> bool:
    return event["event"] == "content-block-delta" and event["delta"]["type"] in DELTA_FIELDS


def _continues(before: dict[str, Any], event: dict[str, Any]) -> bool:
    if not _is_slice(event) or event["index"] != before["index"]:
        return False
    return bool(event["delta"]["type"] == before["delta"]["type"])


def _sliced(run: Sequence[dict[str, Any]], chance: random.Random) -> list[Event]:
    if not run:
        return []
    kind = run[0]["delta"]["type"]
    field = DELTA_FIELDS[kind][0]
    text = "".join(event["delta"][field] for event in run)
    pieces, start = [], 0
    while start < len(text):
        end = start + chance.randint(1, LONGEST)
        pieces.append(text[start:end])
        start = end
    return [cast("Event", {**run[0], "delta": {"type": kind, field: piece}}) for piece in pieces]
