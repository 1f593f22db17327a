"""How far a long piece of work is: a bar of rich at a terminal, a widget in a notebook, plain lines elsewhere.

Nothing is shown for work that is over at once, and whoever shows it never fails the work: a terminal that goes away
ends the showing only. The rule of the file: no clock but `clock`, no stream but `stream`, so that tests can give both.
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

__all__ = ["Progress", "ProgressCallback", "ProgressOption", "show_progress"]

ProgressCallback: TypeAlias = Callable[[int, int | None], object]
"""Called with what is done and what there is in all (None where that is not known)."""
ProgressOption: TypeAlias = bool | ProgressCallback | None
"""What `progress=` takes: true, a function of (done, total), or nothing."""

LINE_PERIOD = 2.0
"""Seconds between two plain lines."""
WIDGET_PERIOD = 0.1


class _View(Protocol):
    details: str
    """What is shown beside the numbers."""

    def update(self, done: int, total: int | None) -> None: ...
    def close(self, done: int, total: int | None) -> None: ...


class Progress:
    """Shows how far a piece of work is.

    ```python
    from foldline.utils.progress import Progress

    told = []
    with Progress(3, "copying", show=lambda done, total: told.append(f"{done}/{total}")) as progress:
        for _ in range(3):
            progress.advance()
    print(told)
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
        """Begin at 0 of `total`; `show` is true for a view that fits the place, or a function of (done, total)."""
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
        """Say that so much more is done."""
        if self._view is not None:
            self.update(self.done + count)
        else:
            self.done += count

    def update(self, done: int, total: int | None = None, *, details: str = "") -> None:
        """Say how much is done, and if it is known now, of how much; `details` are shown beside the numbers."""
        self.done = done
        self.total = self.total if total is None else total
        if self._view is None:
            return
        self._view.details = details
        if isinstance(self._view, _CallbackView):
            self._view.update(
                self.done, self.total
            )  # what a caller's function raises is the caller's
            return
        try:
            self._view.update(self.done, self.total)
        except (OSError, ValueError):  # nobody looks any more
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
    """Return the progress that a caller's `progress=` asks for; one that shows nothing where it asks for none."""
    return Progress(total, label, show=show)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _is_notebook() -> bool:
    """Say whether this runs in a notebook, without importing IPython where nobody has."""
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
        """The function has been told of every step."""


class _LineView:
    """A line now and then, the last one when the work is over; none for work that is over at once."""

    details = ""

    def __init__(
        self, label: str, stream: TextIO, clock: Callable[[], float], *, is_bytes: bool
    ) -> None:
        self._label = label or "working"
        self._stream = stream
        self._clock = clock
        self._is_bytes = is_bytes
        self._began = self._last = clock()
        self._has_written = False

    def update(self, done: int, total: int | None) -> None:
        if self._clock() - self._last >= LINE_PERIOD and done != total:
            self._write(done, total)

    def close(self, done: int, total: int | None) -> None:
        if self._has_written or self._clock() - self._began >= LINE_PERIOD:
            self._write(done, total)

    def _write(self, done: int, total: int | None) -> None:
        self._last = self._clock()
        self._has_written = True
        of = (
            f"/{self._amount(total)} ({100 * done // total if total else 100}%)"
            if total is not None
            else ""
        )
        seconds = self._last - self._began
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
