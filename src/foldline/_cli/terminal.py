"""Writes output: styled on a terminal, plain text elsewhere.

The text of a model or a file may hold escape sequences that move the cursor or retitle the window: on a terminal they
are removed.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["clean", "echo", "note", "progress_bar", "table", "terminal_width"]

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All control characters except newline and tab."""


def is_terminal(stream: IO[str]) -> bool:
    """Whether a stream is a terminal."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def clean(text: str) -> str:
    """Remove the control characters that a terminal would obey."""
    return CONTROLS.sub("", text.replace("\r\n", "\n"))


def readable(text: str) -> str:
    """Replace the surrogates of bytes that were not UTF-8 on the command line or in a pipe."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@cache
def console(*, is_error: bool = False) -> Console:
    """Return the styled console. Rich is imported here, and only for a terminal."""
    from rich.console import Console

    return Console(stderr=is_error, highlight=False, markup=False, emoji=False)


def terminal_width() -> int:
    """Return how many characters fit in a line of the terminal."""
    return max(20, shutil.get_terminal_size().columns - 1)


def echo(text: str = "", *, end: str = "\n", style: str | None = None) -> None:
    """Write to stdout, at once."""
    if is_terminal(sys.stdout):
        # With soft_wrap the terminal breaks the lines, again at each resize.
        console().print(clean(text), end=end, style=style, soft_wrap=True)
    else:
        sys.stdout.write(text + end)
    sys.stdout.flush()


def note(text: str, *, style: str = "dim", end: str = "\n") -> None:
    """Write a remark to stderr."""
    if is_terminal(sys.stderr):
        console(is_error=True).print(clean(text), style=style, soft_wrap=True, end=end)
    else:
        sys.stderr.write(f"{text}{end}")
    sys.stderr.flush()


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write rows under a header: columns on a terminal, tabs elsewhere (for cut and awk)."""
    if not is_terminal(sys.stdout):
        for row in (header, *rows):
            echo("\t".join(clean(cell).replace("\n", " ") for cell in row))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(*header, box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for row in rows:
        grid.add_row(*(Text(clean(cell)) for cell in row))
    console().print(grid)
    sys.stdout.flush()


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of a fetch on stderr, once it begins."""
    if not is_terminal(sys.stderr):
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn(label), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console(is_error=True), transient=True) as progress:
        task = progress.add_task(label, total=None, visible=False)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total, visible=True)

        yield report
