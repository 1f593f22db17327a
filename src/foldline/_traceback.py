"""Tracebacks that end where a program called foldline: the frames of machinery are cut at the public entry points.

Only an error's path is touched, after it was raised. Frames of the program (and of the libraries that it calls) stay,
causes and contexts stay, and an error that is none of foldline's own but was raised by its code keeps every frame: it
may be a defect, and a report of it needs them. `FOLDLINE_DEBUG=1` cuts nothing.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Any, TypeVar

from foldline.exceptions import FoldlineError

__all__ = ["closing", "cut_traceback", "is_debugging"]

T = TypeVar("T", bound=AsyncGenerator[Any, None])

HOME = os.path.dirname(os.path.abspath(__file__)) + os.sep
PLUMBING = tuple(
    os.path.dirname(os.__file__) + os.sep + part
    for part in ("asyncio" + os.sep, "concurrent" + os.sep, "contextlib.py", "threading.py")
)
"""Parts of the standard library that foldline waits through: cut where foldline called them."""


def is_debugging() -> bool:
    """Say whether `FOLDLINE_DEBUG` asks for every frame."""
    return os.environ.get("FOLDLINE_DEBUG", "0") not in ("", "0")


def cut_traceback(error: BaseException) -> None:
    """Take foldline's own frames out of the traceback of an error, of its causes and of the errors in a group."""
    if not isinstance(error, Exception) or is_debugging():
        return
    waiting: list[BaseException | None] = [error]
    known: set[int] = set()
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in known:
            continue
        known.add(id(current))
        BaseException.with_traceback(
            current, _cut(current)
        )  # also where a class takes no attribute
        waiting += (current.__cause__, current.__context__)
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions


class closing(aclosing[T]):
    """Close a stream at the end of a block, as `contextlib.aclosing` does; an error that passes is cut here."""

    async def __aexit__(self, *exc_info: object) -> None:
        """Close the stream; cut the traceback of an error, which then leaves out the reader's own frame too."""
        await self.thing.aclose()
        error = exc_info[1]
        if isinstance(error, Exception):
            cut_traceback(error)


def _cut(error: BaseException) -> TracebackType | None:
    entries: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    if not entries or (_is_own(entries[-1]) and not isinstance(error, FoldlineError)):
        return error.__traceback__
    cut: TracebackType | None = None
    for entry in reversed(_others(entries)):
        cut = TracebackType(cut, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return cut


def _others(entries: list[TracebackType]) -> list[TracebackType]:
    """Return the entries that are not foldline's, nor of what it waits through."""
    others: list[TracebackType] = []
    was_own = False
    for entry in entries:
        was_own = _is_own(entry) or (was_own and _file(entry).startswith(PLUMBING))
        if not was_own:
            others.append(entry)
    return others


def _is_own(entry: TracebackType) -> bool:
    return _file(entry).startswith(HOME)


def _file(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename
