"""`Metrics`: the numbers of one process, and how those of several become one page in Prometheus's text form.

Label values come from the configuration only (apps, wires, statuses); of the names of models, 200 are kept.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from foldline import __version__
from foldline._io import mutex
from foldline.serve._json_object import JsonObject

__all__ = ["BUCKETS", "METRICS", "Metric", "Metrics", "Series", "render"]

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0)
"""The upper bounds of histograms, in seconds."""
MOST_MODELS: Final = 200
OTHER: Final = "other"
Labels = tuple[str, ...]
Sum = Literal["sum", "max", "min"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A name of the page: what it counts, and by which labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Labels = ()
    over_workers: Sum = "sum"


def _metrics(*rows: Metric) -> dict[str, Metric]:
    return {row.name: row for row in rows}


METRICS: Final = _metrics(
    Metric("foldline_runs_started_total", "counter", "Runs that began.", ("app", "wire")),
    Metric("foldline_runs_ended_total", "counter", "Runs that ended, by how.", ("app", "wire", "status")),
    Metric("foldline_run_seconds", "histogram", "How long runs took.", ("app", "wire", "status")),
    Metric("foldline_first_event_seconds", "histogram", "Time to the first event of a run.", ("app", "wire")),
    Metric("foldline_queue_seconds", "histogram", "How long runs waited for their turn.", ("app",)),
    Metric("foldline_model_calls_total", "counter", "Calls of models, by how they ended.", ("model", "status")),
    Metric("foldline_model_call_seconds", "histogram", "How long calls of models took.", ("model",)),
    Metric("foldline_tokens_total", "counter", "Tokens of runs.", ("app", "model", "way")),
    Metric("foldline_cost_dollars_total", "counter", "What runs cost, where it is known.", ("app", "model")),
    Metric("foldline_unpriced_runs_total", "counter", "Runs of unknown cost.", ("app",)),
    Metric("foldline_embeddings_total", "counter", "Requests for embeddings.", ("app", "status")),
    Metric("foldline_http_requests_total", "counter", "Requests, by status.", ("wire", "status")),
    Metric("foldline_http_request_seconds", "histogram", "How long answers took.", ("wire",)),
    Metric("foldline_budget_refused_total", "counter", "Requests beyond the limits of a key.", ("kind",)),
    Metric("foldline_runs_live", "gauge", "Runs under way."),
    Metric("foldline_runs_queued", "gauge", "Runs that wait for their turn."),
    Metric("foldline_streams_open", "gauge", "Open streams."),
    Metric("foldline_loop_lag_seconds", "histogram", "How late the event loop was."),
    Metric("foldline_log_commit_seconds", "histogram", "How long transactions of the run log took."),
    Metric("foldline_log_commits_total", "counter", "Transactions of the run log."),
    Metric("foldline_build_info", "gauge", "The version.", ("version",), "max"),
    Metric("process_cpu_seconds_total", "counter", "CPU time of the processes."),
    Metric("process_resident_memory_bytes", "gauge", "Memory of the processes."),
    Metric("process_open_fds", "gauge", "Open files of the processes."),
    Metric("process_start_time_seconds", "gauge", "When the first process began.", (), "min"),
)  # fmt: skip
"""The names of the page, in its order: one line each."""
KEYED: Final = frozenset(
    f"foldline_{name}"
    for name in ("runs_started_total", "runs_ended_total", "tokens_total", "cost_dollars_total")
)
"""What also has the label `key`, if the settings say so."""


@dataclass(slots=True)
class Series:
    """The numbers of one process: counters and gauges by name and labels, and histograms."""

    numbers: dict[tuple[str, Labels], float] = field(default_factory=dict)
    buckets: dict[tuple[str, Labels], list[int]] = field(default_factory=dict)
    """Per histogram: how many values are within each bound but not the one before, and those beyond all."""
    sums: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def as_json(self) -> JsonObject:
        """Return the numbers as JSON."""
        return {
            "numbers": [[name, labels, value] for (name, labels), value in self.numbers.items()],
            "histograms": [
                [name, labels, counts, self.sums[name, labels]]
                for (name, labels), counts in self.buckets.items()
            ],
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> Series:
        """Read numbers from JSON."""
        series = cls()
        for name, labels, value in data["numbers"]:
            series.numbers[name, tuple(labels)] = value
        for name, labels, counts, total in data["histograms"]:
            series.buckets[name, tuple(labels)] = counts
            series.sums[name, tuple(labels)] = total
        return series

    def add(self, other: Series, *, is_live: bool) -> None:
        """Add the numbers of another process; its gauges only if it lives."""
        for place, value in other.numbers.items():
            metric = METRICS.get(place[0])
            if metric is None or (metric.kind == "gauge" and not is_live):
                continue
            old = self.numbers.get(place)
            self.numbers[place] = value if old is None else _join(metric.over_workers, old, value)
        for place, counts in other.buckets.items():
            mine = self.buckets.setdefault(place, [0] * (len(BUCKETS) + 1))
            self.buckets[place] = [one + two for one, two in zip(mine, counts, strict=True)]
            self.sums[place] = self.sums.get(place, 0.0) + other.sums[place]


def _join(how: Sum, one: float, two: float) -> float:
    return one + two if how == "sum" else max(one, two) if how == "max" else min(one, two)


class Metrics:
    """The numbers of this process."""

    def __init__(self, *, has_keys: bool = False) -> None:
        self.has_keys = has_keys
        """Whether runs, tokens and costs are counted by key too."""
        self._series = Series()
        self._models: set[str] = set()
        self._lock = mutex()
        self._started = time.time()
        self.gauges: dict[str, float] = {}
        """The gauges and counts that the host reports, by name."""

    def add(self, name: str, *labels: str, amount: float = 1.0, key: str = "") -> None:
        """Add to a counter."""
        place = self._place(name, labels, key)
        with self._lock:
            numbers = self._series.numbers
            numbers[place] = numbers.get(place, 0.0) + amount

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        """Add a value to a histogram."""
        place = (f"foldline_{name}", labels)
        bucket = bisect_left(BUCKETS, seconds)
        with self._lock:
            counts = self._series.buckets.get(place)
            if counts is None:
                counts = self._series.buckets[place] = [0] * (len(BUCKETS) + 1)
            counts[bucket] += 1
            self._series.sums[place] = self._series.sums.get(place, 0.0) + seconds

    def _place(self, name: str, labels: Labels, key: str) -> tuple[str, Labels]:
        full = f"foldline_{name}"
        return full, (*labels, key) if self.has_keys and full in KEYED else labels

    def model(self, name: str) -> str:
        """Return the label of a model: its name, or `other` where too many have been seen."""
        if name not in self._models:
            if len(self._models) >= MOST_MODELS:
                return OTHER
            self._models.add(name)
        return name

    def series(self) -> Series:
        """Return a copy of all numbers."""
        with self._lock:
            series = Series(
                dict(self._series.numbers),
                {place: list(counts) for place, counts in self._series.buckets.items()},
                dict(self._series.sums),
            )
        facts = {"foldline_" + name: value for name, value in self.gauges.items()}
        facts |= _process_facts(self._started)
        series.numbers |= {(name, ()): value for name, value in facts.items()}
        series.numbers["foldline_build_info", (__version__,)] = 1.0
        return series


def _process_facts(started: float) -> dict[str, float]:
    times = os.times()
    facts = {
        "process_cpu_seconds_total": times.user + times.system,
        "process_start_time_seconds": started,
    }
    try:  # what only Linux has
        with open("/proc/self/statm", encoding="ascii") as file:
            facts["process_resident_memory_bytes"] = int(file.read().split()[1]) * 4096.0
        facts["process_open_fds"] = float(len(os.listdir("/proc/self/fd")))
    except OSError:
        pass
    return facts


def render(series: Series, *, has_keys: bool) -> str:
    """Return the page that Prometheus reads."""
    lines: list[str] = []
    places = sorted({*series.numbers, *series.buckets})
    for metric in METRICS.values():
        labels = metric.labels
        if has_keys and metric.name in KEYED:
            labels = (*labels, "key")
        mine = [place for place in places if place[0] == metric.name]
        if not mine and labels:
            continue
        lines.append(f"# HELP {metric.name} {metric.help}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for place in mine or [(metric.name, ())]:
            names = dict(zip(labels, place[1], strict=True))
            if metric.kind == "histogram":
                lines += _histogram_lines(metric.name, names, series, place)
            else:
                lines.append(_line(metric.name, names, series.numbers.get(place, 0.0)))
    return "\n".join(lines) + "\n"


def _histogram_lines(
    name: str, labels: Mapping[str, str], series: Series, place: tuple[str, Labels]
) -> Iterable[str]:
    counts = series.buckets.get(place) or [0] * (len(BUCKETS) + 1)
    total = 0
    for bound, count in zip((*BUCKETS, float("inf")), counts, strict=True):
        total += count
        limit = "+Inf" if bound == float("inf") else f"{bound:g}"
        yield _line(f"{name}_bucket", {**labels, "le": limit}, total)
    yield _line(f"{name}_sum", labels, series.sums.get(place, 0.0))
    yield _line(f"{name}_count", labels, total)


def _line(name: str, labels: Mapping[str, Any], value: float) -> str:
    pairs = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
    number = repr(int(value)) if float(value).is_integer() else repr(round(value, 9))
    return f"{name}{{{pairs}}} {number}" if pairs else f"{name} {number}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
