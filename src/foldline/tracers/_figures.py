"""Figures of model calls over time: counts, tokens, cost and latencies, in steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["COLUMNS", "figures_of", "percentile"]

COLUMNS = "start_time, end_time, first_token_time, input_tokens, output_tokens, cost, error_class IS NOT NULL"
"""What is read of a call; an index has them all, so that the long rows are not touched."""


@dataclass(slots=True)
class _Step:
    calls: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    times: list[float] = field(default_factory=list)
    first_times: list[float] = field(default_factory=list)


def figures_of(
    rows: Iterable[tuple[Any, ...]], start: float, end: float, step: float
) -> list[dict[str, Any]]:
    """Return the figures of calls, one dict for each step of time."""
    count = max(1, round((end - start) / step))
    steps = [_Step() for _ in range(count)]
    for begin, finish, first, input_tokens, output_tokens, cost, has_failed in rows:
        one = steps[min(int((begin - start) / step), count - 1)]
        one.calls += 1
        if has_failed:
            one.errors += 1
        if input_tokens:
            one.input_tokens += input_tokens
        if output_tokens:
            one.output_tokens += output_tokens
        if cost is not None:
            one.cost = cost if one.cost is None else one.cost + cost
        if finish is not None:
            one.times.append(finish - begin)
        if first is not None:
            one.first_times.append(first - begin)
    return [_figures(start + place * step, one) for place, one in enumerate(steps)]


def _figures(time: float, step: _Step) -> dict[str, Any]:
    times, first_times = sorted(step.times), sorted(step.first_times)
    return {
        "time": time,
        "calls": step.calls,
        "errors": step.errors,
        "input_tokens": step.input_tokens,
        "output_tokens": step.output_tokens,
        "cost": step.cost,
        "p50": percentile(times, 0.5),
        "p95": percentile(times, 0.95),
        "first_p50": percentile(first_times, 0.5),
        "first_p95": percentile(first_times, 0.95),
    }


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of ordered values lies; None of none."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
