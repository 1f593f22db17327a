"""How a job shows where it is: a function that is called with the report, or a line on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Final

from foldline.batches.options import OnProgress
from foldline.batches.records import BatchReport

__all__ = ["Reporter", "progress_line"]

SECONDS: Final = 0.25
LINE_SECONDS: Final = 5.0
"""Between two lines where the output is no terminal."""


class Reporter:
    """Tells how a job goes, at most four times a second."""

    def __init__(self, progress: bool | OnProgress | None) -> None:  # noqa: FBT001  a choice of the user's
        self._tell: OnProgress | None = None
        self._seconds = SECONDS
        if progress is True:
            is_terminal = sys.stderr.isatty()
            self._tell = _rewrite if is_terminal else _write
            self._seconds = SECONDS if is_terminal else LINE_SECONDS
        elif callable(progress):
            self._tell = progress
        self._told_at = 0.0

    def tell(self, report: Callable[[], BatchReport], *, is_last: bool) -> None:
        """Show the report, unless that was done just now."""
        if self._tell is None or (not is_last and perf_counter() - self._told_at < self._seconds):
            return
        self._tell(report())
        self._told_at = perf_counter()

    def __enter__(self) -> None:
        self._told_at = 0.0

    def __exit__(self, *_: object) -> None:
        if self._tell is _rewrite:
            sys.stderr.write("\n")


def progress_line(report: BatchReport) -> str:
    """Say where a job stands in one line: items, tokens, cost, errors, the time left."""
    share = f" ({report.finished * 100 // report.items} %)" if report.items else ""
    parts = [f"{report.finished:,} of {report.items:,}{share}"]
    if report.sent:
        parts.append(f"{report.sent:,} with the provider")
    if report.failed:
        parts.append(f"{report.failed:,} failed")
    if report.rejected:
        parts.append(f"{report.rejected:,} rows rejected")
    tokens = report.input_tokens + report.output_tokens
    if tokens:
        parts.append(f"{tokens:,} tokens")
    if report.known_cost:
        parts.append(f"${report.known_cost:,.4f}{' and unknown' if report.unpriced else ''}")
    left = report.seconds_left
    if left is not None and not report.is_finished:
        parts.append(f"{_time(left)} left")
    return " · ".join(parts)


def _time(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _write(report: BatchReport) -> None:
    sys.stderr.write(progress_line(report) + "\n")


def _rewrite(report: BatchReport) -> None:
    sys.stderr.write(f"\r\x1b[K{progress_line(report)}")
    sys.stderr.flush()
