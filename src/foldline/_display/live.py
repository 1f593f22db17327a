"""Shows a stream in a notebook while it is read: one output that is updated as the answer grows.

Only a notebook can update an output. Elsewhere (a terminal) the `repr` is printed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any, Final

__all__ = ["LiveOutput", "ashow_live", "show_live"]

INTERVAL: Final = 0.1
"""Seconds between two updates: a notebook draws no faster, and each update draws everything."""


class LiveOutput:
    """An output of a notebook that is updated with new HTML each time."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make
        self._handle: Any = None
        self._update_time = 0.0

    def draw(self) -> None:
        """Show the output for the first time, or update it."""
        notebook: Any = import_module("IPython.display")  # only notebooks call this
        self._update_time = time.monotonic()
        if self._handle is None:
            self._handle = notebook.display(notebook.HTML(self._make()), display_id=True)
        else:
            self._handle.update(notebook.HTML(self._make()))

    def draw_if_due(self) -> None:
        """Update the output, unless the last update was just now."""
        if time.monotonic() - self._update_time >= INTERVAL:
            self.draw()


def can_renew() -> bool:
    """Whether this program runs in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and type(shell).__name__ != "TerminalInteractiveShell"


def show_live(events: Iterator[object], output: LiveOutput) -> None:
    """Read a stream to its end and show it; a failure is shown and not raised."""
    output.draw()
    try:
        for _ in events:
            output.draw_if_due()
    except Exception:  # noqa: BLE001  the output shows it, and readers of the stream get it
        pass
    output.draw()


async def ashow_live(events: AsyncIterator[object], output: LiveOutput) -> None:
    """Read a stream to its end and show it; a failure is shown and not raised."""
    output.draw()
    try:
        async for _ in events:
            output.draw_if_due()
    except Exception:  # noqa: BLE001  the output shows it, and readers of the stream get it
        pass
    output.draw()
