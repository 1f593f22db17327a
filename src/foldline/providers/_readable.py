"""The blocks of a whole answer that can be read, where some cannot: for the partial message of its error. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from foldline.exceptions import FoldlineError
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder
from foldline.providers._wire import ODD

__all__ = ["Path", "blocks_so_far", "readable_blocks"]

Path: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a list of blocks in an answer."""

MOST_BLOCKS = 256
"""More are not tried one by one."""


def readable_blocks(
    data: object, paths: Sequence[Path], read: Callable[[Any], list[Event]]
) -> list[Any]:
    """Return the blocks of an answer without those that cannot be read; nothing where the fault is elsewhere."""
    rest = data
    for path in paths:
        items = _at(rest, path)
        if isinstance(items, list) and len(items) <= MOST_BLOCKS:
            good = [item for item in items if _events(_with(rest, path, [item]), read) is not None]
            rest = _with(rest, path, good)
    return blocks_so_far(_events(rest, read) or [])


def blocks_so_far(events: Sequence[Event]) -> list[Any]:
    """Return what events have said, finished or not."""
    builder = MessageBuilder()
    with suppress(FoldlineError):  # one that is too long ends where it is
        for event in events:
            builder.feed(event)
    return list(builder.blocks(partial=True))


def _events(data: object, read: Callable[[Any], list[Event]]) -> list[Event] | None:
    try:
        return read(data)
    except (FoldlineError, *ODD):
        return None


def _at(data: Any, path: Path) -> Any:  # noqa: ANN401  JSON, walked by a path that may not be there
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _with(data: Any, path: Path, items: list[Any]) -> object:  # noqa: ANN401  JSON, walked by a path that may not be there
    """Return the answer with other blocks at a path; it is copied along the path only."""
    if not path:
        return items
    copy = data.copy()
    copy[path[0]] = _with(data[path[0]], path[1:], items)
    return copy
