"""Shows the progress of long work: a bar of rich in a terminal, a widget in a notebook, plain lines elsewhere.

Nothing is shown for short work, and a failure of the display never fails the work: a terminal that is closed only ends
the display. Time comes from `clock` and output goes to `stream`, so that tests can replace both.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Protocol, Self, TextIO, TypeAlias

from foldline.exceptions import UsageError

__all__ = [
    "Progress",
    "show_progress",
]

ProgressCallback: TypeAlias = Callable[[int, int | None], object]
"""Called with the amount done and the total (None where it is not known)."""
ProgressOption: TypeAlias = bool | ProgressCallback | None
"""What `progress=` takes: true, a function of (done, total), or nothing."""

LINE_PERIOD = 2.0
"""Seconds between two plain lines."""
WIDGET_PERIOD = 0.1


class _View(Protocol):
    details: str
    """Text that is shown next to the numbers."""

    def update(self, done: int, total: int | None) -> None: ...
    def close(self, done: int, total: int | None) -> None: ...


class Progress:
    """Shows the progress of work.

    ```python
    from foldline.utils.progress import Progress

    lines = []
    with Progress(3, "copying", show=lambda done, total: lines.append(f"{done}/{total}")) as progress:
        for _ in range(3):
            progress.advance()
    print(lines)
    #> ['0/3', '1/3', '2/3', '3/3']
    ```
    """

    def __init__(
        self,
        total: int | None = None,
        label: str = "",
        *,
        show: ProgressOption = True,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        is_bytes: bool = False,
    ) -> None:
        """Begin at 0 of `total`; `show` is True for the usual display, or a function of (done, total)."""
        if not (show is None or isinstance(show, bool) or callable(show)):
            raise UsageError(
                f"progress is True, False or a function of (done, total), not {show!r:.60}"
            )
        self.done = 0
        self.total = total
        self.label = label
        self._show = show
        self._stream = stream
        self._clock = clock
        self._is_bytes = is_bytes
        self._view: _View | None = None

    def __enter__(self) -> Self:
        if callable(self._show):
            view = _CallbackView(self._show)
            self._view = view
            view.update(0, self.total)
        elif self._show:
            self._view = self._choose()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        view, self._view = self._view, None
        if view is not None:
            with suppress(OSError, ValueError):
                view.close(self.done, self.total)

    def advance(self, count: int = 1) -> None:
        """Add to the amount done."""
        if self._view is not None:
            self.update(self.done + count)
        else:
            self.done += count

    def update(self, done: int, total: int | None = None, *, details: str = "") -> None:
        """Set the amount done, and the total if it is known; `details` are shown next to the numbers."""
        self.done = done
        self.total = self.total if total is None else total
        if self._view is None:
            return
        self._view.details = details
        if isinstance(self._view, _CallbackView):
            self._view.update(self.done, self.total)  # errors of the caller's function are raised
            return
        try:
            self._view.update(self.done, self.total)
        except (OSError, ValueError):  # the display is gone
            self._view = None

    def _choose(self) -> _View | None:
        stream = self._stream or sys.stderr
        if stream is None:  # a program without a console
            return None
        if self._stream is None and _is_notebook() and find_spec("ipywidgets"):
            return _WidgetView(self.label, self._clock)
        if _is_terminal(stream) and find_spec("rich"):
            return _RichView(self.label, stream, is_bytes=self._is_bytes)
        return _LineView(self.label, stream, self._clock, is_bytes=self._is_bytes)


def show_progress(show: ProgressOption, total: int | None, label: str) -> Progress:
    """Return the `Progress` for a caller's `progress=`; one that shows nothing for None or False."""
    return Progress(total, label, show=show)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _is_notebook() -> bool:
    """Whether this runs in a notebook, without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class _CallbackView:
    details = ""

    def __init__(self, callback: ProgressCallback) -> None:
        self._callback = callback

    def update(self, done: int, total: int | None) -> None:
        self._callback(done, total)

    def close(self, done: int, total: int | None) -> None:
        """Do nothing: the function has been called for every step."""


class _LineView:
    """Prints a line at intervals, and one at the end; none for short work."""

    details = ""

    def __init__(
        self, label: str, stream: TextIO, clock: Callable[[], float], *, is_bytes: bool
    ) -> None:
        self._label = label or "working"
        self._stream = stream
        self._clock = clock
        self._is_bytes = is_bytes
        self._start_time = self._last = clock()
        self._has_written = False

    def update(self, done: int, total: int | None) -> None:
        if self._clock() - self._last >= LINE_PERIOD and done != total:
            self._write(done, total)

    def close(self, done: int, total: int | None) -> None:
        if self._has_written or self._clock() - self._start_time >= LINE_PERIOD:
            self._write(done, total)

    def _write(self, done: int, total: int | None) -> None:
        self._last = self._clock()
        self._has_written = True
        of = (
            f"/{self._amount(total)} ({100 * done // total if total else 100}%)"
            if total is not None
            else ""
        )
        seconds = self._last - self._start_time
        details = f" · {self.details}" if self.details else ""
        self._stream.write(f"{self._label}: {self._amount(done)}{of}, {seconds:.0f} s{details}\n")
        self._stream.flush()

    def _amount(self, count: int) -> str:
        return f"{count / 1e6:.1f} MB" if self._is_bytes else str(count)


class _RichView:
    details = ""

    def __init__(self, label: str, stream: TextIO, *, is_bytes: bool) -> None:
        console = import_module("rich.console").Console(file=stream, highlight=False, markup=False)
        rich = import_module("rich.progress")
        columns: list[Any] = [rich.TextColumn("{task.description}", markup=False), rich.BarColumn()]
        if is_bytes:
            columns += [rich.DownloadColumn(), rich.TransferSpeedColumn()]
        else:
            columns += [rich.MofNCompleteColumn(), rich.TimeRemainingColumn()]
        columns.append(rich.TextColumn("{task.fields[details]}", markup=False))
        self._bars = rich.Progress(*columns, console=console, transient=True)
        self._task = self._bars.add_task(label, total=None, details="")
        self._bars.start()

    def update(self, done: int, total: int | None) -> None:
        self._bars.update(self._task, completed=done, total=total, details=self.details)

    def close(self, done: int, total: int | None) -> None:
        self._bars.update(self._task, completed=done, total=total, details=self.details)
        self._bars.stop()


class _WidgetView:
    """A bar in a notebook's page."""

    details = ""

    def __init__(self, label: str, clock: Callable[[], float]) -> None:
        widgets = import_module("ipywidgets")
        self._clock = clock
        self._last = 0.0
        self._bar = widgets.IntProgress(value=0, min=0, max=1, description=label)
        self._text = widgets.Label("")
        import_module("IPython.display").display(widgets.HBox([self._bar, self._text]))

    def update(self, done: int, total: int | None) -> None:
        if done != total and self._clock() - self._last < WIDGET_PERIOD:
            return  # each change is a message to the browser
        self._last = self._clock()
        self._bar.max = total or max(done, 1)
        self._bar.value = done
        count = f"{done}" if total is None else f"{done}/{total}"
        self._text.value = f"{count} · {self.details}" if self.details else count

    def close(self, done: int, total: int | None) -> None:
        self._last = 0.0
        self.update(done, total)
        self._bar.bar_style = "success" if done == total else ""
