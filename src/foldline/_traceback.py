"""Tracebacks that end where a program called foldline: internal frames are cut at the public entry points.

Only the path of an error is changed, after it was raised. Frames of the program (and of the libraries that it calls),
causes and contexts stay. An error that is not a FoldlineError but was raised by foldline's code keeps every frame: it
may be a defect, and a report of it needs them. `FOLDLINE_DEBUG=1` turns this off.
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
WAITING_MODULES = tuple(
    os.path.dirname(os.__file__) + os.sep + part
    for part in ("asyncio" + os.sep, "concurrent" + os.sep, "contextlib.py", "threading.py")
)
"""Parts of the standard library that foldline waits through: cut where foldline called them."""


def is_debugging() -> bool:
    """Return whether `FOLDLINE_DEBUG` asks for every frame."""
    return os.environ.get("FOLDLINE_DEBUG", "0") not in ("", "0")


def cut_traceback(error: BaseException) -> None:
    """Remove foldline's frames from the traceback of an error, of its causes and of the errors in a group."""
    if not isinstance(error, Exception) or is_debugging():
        return
    pending: list[BaseException | None] = [error]
    visited: set[int] = set()
    while pending:
        current = pending.pop()
        if current is None or id(current) in visited:
            continue
        visited.add(id(current))
        # Also works for a class that accepts no attributes.
        BaseException.with_traceback(current, _shortened_traceback(current))
        pending += (current.__cause__, current.__context__)
        if isinstance(current, BaseExceptionGroup):
            pending += current.exceptions


class closing(aclosing[T]):
    """Close a stream at the end of a block, as `contextlib.aclosing` does; cut the traceback of an error."""

    async def __aexit__(self, *exc_info: object) -> None:
        """Close the stream; cut the traceback of an error, without the frame of the reader."""
        await super().__aexit__(*exc_info)
        error = exc_info[1]
        if isinstance(error, Exception):
            cut_traceback(error)


def _shortened_traceback(error: BaseException) -> TracebackType | None:
    entries: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    if not entries or (_is_own(entries[-1]) and not isinstance(error, FoldlineError)):
        return error.__traceback__
    shortened: TracebackType | None = None
    for entry in reversed(_outside_entries(entries)):
        shortened = TracebackType(shortened, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shortened


def _outside_entries(entries: list[TracebackType]) -> list[TracebackType]:
    """Return the entries that are not foldline's, nor of modules that it waits through."""
    outside: list[TracebackType] = []
    was_own = False
    for entry in entries:
        was_own = _is_own(entry) or (was_own and _file(entry).startswith(WAITING_MODULES))
        if not was_own:
            outside.append(entry)
    return outside


def _is_own(entry: TracebackType) -> bool:
    return _file(entry).startswith(HOME)


def _file(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename
