"""The readable blocks of a malformed answer, for the partial message of its error. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from foldline.exceptions import FoldlineError
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder
from foldline.providers._wire import MALFORMED_PAYLOAD_ERRORS

__all__ = ["Path", "blocks_so_far", "readable_blocks"]

Path: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a list of blocks in an answer."""

MAX_BLOCKS = 256
"""Longer lists are not tried block by block."""


def readable_blocks(
    data: object, paths: Sequence[Path], read: Callable[[Any], list[Event]]
) -> list[Any]:
    """Return the blocks of an answer that can be decoded; [] if the fault is outside its blocks."""
    answer = data
    for path in paths:
        items = _value_at(answer, path)
        if isinstance(items, list) and len(items) <= MAX_BLOCKS:
            readable = [
                item
                for item in items
                if _events(_replace_at(answer, path, [item]), read) is not None
            ]
            answer = _replace_at(answer, path, readable)
    return blocks_so_far(_events(answer, read) or [])


def blocks_so_far(events: Sequence[Event]) -> list[Any]:
    """Return the blocks of events so far, finished or not."""
    builder = MessageBuilder()
    with suppress(FoldlineError):  # a block over the limits is cut off
        for event in events:
            builder.feed(event)
    return list(builder.blocks(partial=True))


def _events(data: object, read: Callable[[Any], list[Event]]) -> list[Event] | None:
    try:
        return read(data)
    except (FoldlineError, *MALFORMED_PAYLOAD_ERRORS):
        return None


def _value_at(data: Any, path: Path) -> Any:  # noqa: ANN401  JSON, walked by a path that may not be there
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _replace_at(data: Any, path: Path, items: list[Any]) -> object:  # noqa: ANN401  JSON, walked by a path that may not be there
    """Return the answer with the blocks at a path replaced; only the containers along the path are copied."""
    if not path:
        return items
    copy = data.copy()
    copy[path[0]] = _replace_at(data[path[0]], path[1:], items)
    return copy
