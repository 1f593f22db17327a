"""Tracebacks that end where a program called foldline: internal frames are cut at the public entry points.

Only the path of an error is changed, after it was raised. Frames of the program (and of the libraries that it calls)
stay, in causes and contexts too. An error that is not a FoldlineError but was raised by foldline's code keeps every
frame, unless it is the cause of one: it may be a defect, and a report of it needs them. `FOLDLINE_DEBUG=1` turns this
off.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

from pydantic_core import ValidationError

from foldline.exceptions import FoldlineError

__all__ = ["closing", "cut_traceback", "entry_point", "is_debugging"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
T = TypeVar("T", bound=AsyncGenerator[Any, None])

HOME = os.path.dirname(os.path.abspath(__file__)) + os.sep
STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
WAITING_MODULES = tuple(
    STANDARD_LIBRARY + part
    for part in ("asyncio" + os.sep, "concurrent" + os.sep, "contextlib.py", "threading.py")
)
"""Parts of the standard library that foldline waits through: cut where foldline called them."""
EXPECTED_ERRORS = (FoldlineError, ValidationError)
"""Errors that foldline raises on purpose; any other one that it raises may be a defect."""


def is_debugging() -> bool:
    """Return whether `FOLDLINE_DEBUG` asks for every frame."""
    return os.environ.get("FOLDLINE_DEBUG", "0") not in ("", "0")


def cut_traceback(error: BaseException) -> None:
    """Remove foldline's frames from the traceback of an error, of its causes and of the errors in a group."""
    if not isinstance(error, Exception) or is_debugging():
        return
    pending: list[tuple[BaseException | None, bool]] = [(error, False)]
    visited: set[int] = set()
    while pending:
        current, is_expected = pending.pop()
        if current is None or id(current) in visited:
            continue
        visited.add(id(current))
        # Also works for a class that accepts no attributes.
        is_expected = is_expected or isinstance(current, EXPECTED_ERRORS)
        shortened = _shortened_traceback(current, is_expected=is_expected)
        BaseException.with_traceback(current, shortened)
        # An error that foldline answered with one of its own is no defect.
        pending += ((current.__cause__, is_expected), (current.__context__, is_expected))
        if isinstance(current, BaseExceptionGroup):
            pending += ((member, False) for member in current.exceptions)


def entry_point(function: FunctionT) -> FunctionT:
    """Decorate a public function that no call of a model passes through: its errors end at the program's line."""

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            cut_traceback(error)
            raise

    return cast("FunctionT", call)


class closing(aclosing[T]):
    """Close a stream at the end of a block, as `contextlib.aclosing` does; cut the traceback of an error."""

    async def __aexit__(self, *exc_info: object) -> None:
        """Close the stream; cut the traceback of an error, without the frame of the reader."""
        await super().__aexit__(*exc_info)
        error = exc_info[1]
        if isinstance(error, Exception):
            cut_traceback(error)


def _shortened_traceback(error: BaseException, *, is_expected: bool) -> TracebackType | None:
    entries: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    if not entries or (_is_own(entries[-1]) and not is_expected):
        return error.__traceback__
    shortened: TracebackType | None = None
    for entry in reversed(_outside_entries(entries, is_expected=is_expected)):
        shortened = TracebackType(shortened, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shortened


def _outside_entries(entries: list[TracebackType], *, is_expected: bool) -> list[TracebackType]:
    """Return the entries that are not foldline's, nor of modules that it waits through.

    Of an error that foldline expected, those of the standard library that it called are left out too.
    """
    outside: list[TracebackType] = []
    was_own = False
    for entry in entries:
        file = _file(entry)
        is_called = file.startswith(WAITING_MODULES) or (
            is_expected and file.startswith(STANDARD_LIBRARY) and "site-packages" not in file
        )
        was_own = _is_own(entry) or (was_own and is_called)
        if not was_own:
            outside.append(entry)
    return outside


def _is_own(entry: TracebackType) -> bool:
    return _file(entry).startswith(HOME)


def _file(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename
