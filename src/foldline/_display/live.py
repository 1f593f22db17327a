"""Show a stream in a notebook while it is read: one output that is renewed as the answer grows.

Only a notebook can renew an output. Elsewhere (a terminal) the `repr` is printed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any, Final

__all__ = ["LiveOutput", "ashow_live", "show_live"]

INTERVAL: Final = 0.1
"""Seconds between two pictures: a notebook draws no faster, and each is drawn anew."""


class LiveOutput:
    """An output of a notebook that is renewed; `made` gives its HTML each time."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make
        self._handle: Any = None
        self._drawn = 0.0

    def draw(self) -> None:
        """Show the output for the first time, or renew it."""
        notebook: Any = import_module("IPython.display")  # only a notebook comes here
        self._drawn = time.monotonic()
        if self._handle is None:
            self._handle = notebook.display(notebook.HTML(self._make()), display_id=True)
        else:
            self._handle.update(notebook.HTML(self._make()))

    def draw_if_due(self) -> None:
        """Renew the output unless that was just done."""
        if time.monotonic() - self._drawn >= INTERVAL:
            self.draw()


def can_renew() -> bool:
    """Say whether this program runs in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and type(shell).__name__ != "TerminalInteractiveShell"


def show_live(events: Iterator[object], output: LiveOutput) -> None:
    """Read a stream to its end, drawing what it has said; a failure is drawn and not raised."""
    output.draw()
    try:
        for _ in events:
            output.draw_if_due()
    except Exception:  # noqa: BLE001  the picture says it, and whoever reads the stream gets it
        pass
    output.draw()


async def ashow_live(events: AsyncIterator[object], output: LiveOutput) -> None:
    """Read a stream to its end, drawing what it has said; a failure is drawn and not raised."""
    output.draw()
    try:
        async for _ in events:
            output.draw_if_due()
    except Exception:  # noqa: BLE001  the picture says it, and whoever reads the stream gets it
        pass
    output.draw()
