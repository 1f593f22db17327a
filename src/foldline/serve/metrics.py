"""Counters of the server, in Prometheus's text form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

__all__ = ["Metrics"]


class Metrics:
    """The counters of this process."""

    def __init__(self) -> None:
        self._started: Counter[str] = Counter()
        self._ended: Counter[tuple[str, str]] = Counter()
        self._responses: Counter[tuple[str, int]] = Counter()
        self._tokens: Counter[str] = Counter()
        self._cost = 0.0
        self._unpriced = 0

    def count_start(self, wire: str) -> None:
        """Count the start of a run."""
        self._started[wire] += 1

    def count_end(
        self, wire: str, status: str, usage: Mapping[str, Any] | None, cost: float | None
    ) -> None:
        """Count the end of a run, and its usage."""
        self._ended[wire, status] += 1
        if usage:
            self._tokens["input"] += int(usage.get("input_tokens") or 0)
            self._tokens["output"] += int(usage.get("output_tokens") or 0)
        if cost is not None:
            self._cost += cost
        elif usage:
            self._unpriced += 1

    def count_error(self, wire: str, status: int) -> None:
        """Count a request that was answered with an error."""
        self._responses[wire, status] += 1

    def text(self, live: int, commits: int) -> str:
        """Return the counters as Prometheus reads them."""
        lines = [
            "# HELP foldline_runs_started_total Runs that began.",
            "# TYPE foldline_runs_started_total counter",
            *(
                f'foldline_runs_started_total{{wire="{wire}"}} {count}'
                for wire, count in sorted(self._started.items())
            ),
            "# HELP foldline_runs_ended_total Runs that ended, by how.",
            "# TYPE foldline_runs_ended_total counter",
            *(
                f'foldline_runs_ended_total{{wire="{wire}",status="{status}"}} {count}'
                for (wire, status), count in sorted(self._ended.items())
            ),
            "# HELP foldline_errors_total Requests answered with an error, by status.",
            "# TYPE foldline_errors_total counter",
            *(
                f'foldline_errors_total{{wire="{wire}",status="{status}"}} {count}'
                for (wire, status), count in sorted(self._responses.items())
            ),
            "# HELP foldline_tokens_total Tokens of runs that ended.",
            "# TYPE foldline_tokens_total counter",
            *(
                f'foldline_tokens_total{{way="{way}"}} {count}'
                for way, count in sorted(self._tokens.items())
            ),
            "# HELP foldline_cost_dollars_total What runs cost, where it is known.",
            "# TYPE foldline_cost_dollars_total counter",
            f"foldline_cost_dollars_total {self._cost:.6f}",
            "# HELP foldline_unpriced_runs_total Runs of which it is not known what they cost.",
            "# TYPE foldline_unpriced_runs_total counter",
            f"foldline_unpriced_runs_total {self._unpriced}",
            "# HELP foldline_runs_live Runs under way.",
            "# TYPE foldline_runs_live gauge",
            f"foldline_runs_live {live}",
            "# HELP foldline_log_commits_total Transactions of the run log.",
            "# TYPE foldline_log_commits_total counter",
            f"foldline_log_commits_total {commits}",
        ]
        return "\n".join(lines) + "\n"
