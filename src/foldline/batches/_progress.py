"""Shows the progress of a job: a function that is called with the report, or the usual progress display."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType
from typing import Final, Self

from foldline.batches.options import ReportCallback
from foldline.batches.records import BatchReport
from foldline.utils.progress import Progress

__all__ = ["JobProgress", "describe_report", "progress_line"]

PERIOD: Final = 0.25
"""Seconds between two reports: each is a query of the store."""


class JobProgress:
    """Shows the progress of a job, at most four times a second."""

    def __init__(self, progress: bool | ReportCallback | None, name: str) -> None:  # noqa: FBT001  a choice of the user's
        self._callback: ReportCallback | None = progress if callable(progress) else None
        self._display = Progress(None, name, show=progress is True)
        self._is_shown = bool(progress)
        self._time = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time for a report."""
        return self._is_shown and perf_counter() - self._time >= PERIOD

    @property
    def is_shown(self) -> bool:
        """Whether progress is shown."""
        return self._is_shown

    def show(self, report: BatchReport) -> None:
        """Show a report."""
        self._time = perf_counter()
        if self._callback is not None:
            self._callback(report)
        else:
            details = " · ".join(describe_report(report))
            self._display.update(report.finished, report.items, details=details)

    def __enter__(self) -> Self:
        self._time = 0.0
        self._display.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._display.__exit__(kind, error, trace)


def progress_line(report: BatchReport) -> str:
    """Return a report in one line: items, tokens, cost, errors, the remaining time."""
    share = f" ({report.finished * 100 // report.items} %)" if report.items else ""
    return " · ".join([f"{report.finished:,} of {report.items:,}{share}", *describe_report(report)])


def describe_report(report: BatchReport) -> list[str]:
    """Return the tokens, cost, errors and remaining time of a report."""
    facts = []
    if report.sent:
        facts.append(f"{report.sent:,} with the provider")
    if report.failed:
        facts.append(f"{report.failed:,} failed")
    if report.rejected:
        facts.append(f"{report.rejected:,} rows rejected")
    tokens = report.input_tokens + report.output_tokens
    if tokens:
        facts.append(f"{tokens:,} tokens")
    if report.known_cost:
        facts.append(f"${report.known_cost:,.4f}{' and unknown' if report.unpriced else ''}")
    seconds = report.seconds_left
    if seconds is not None and not report.is_finished:
        facts.append(f"{_clock(seconds)} left")
    return facts


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
