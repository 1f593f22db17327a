"""Figures of model calls over time: counts, tokens, cost and latencies, in steps.

Whatever the number of calls, no long row is read: an index holds all that is asked for here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldline._storage.database import Connection
from foldline.tracers._database import marks

__all__ = ["percentile", "read_figures"]

SAMPLE = 1_000
"""Calls of one step whose times make its percentiles, at least: of more calls an even sample is taken."""
SUMS = (
    "count(*), count(error_class), CAST(coalesce(sum(input_tokens), 0) AS BIGINT), "
    "CAST(coalesce(sum(output_tokens), 0) AS BIGINT), sum(cost), "
    "count(CASE WHEN input_tokens IS NOT NULL AND cost IS NULL THEN 1 END)"
)


def read_figures(
    connection: Connection, models: Sequence[str], start: float, end: float, step: float
) -> list[dict[str, Any]]:
    """Return the figures of the calls of models, one dict for each step of time."""
    figures = []
    for place in range(max(1, round((end - start) / step))):
        begin = start + place * step
        figures.append(_read_step(connection, models, begin, begin + step))
    return figures


def _read_step(
    connection: Connection, models: Sequence[str], begin: float, end: float
) -> dict[str, Any]:
    # By model and time, as the index is; grouping all steps in one statement would sort all calls.
    calls = f"FROM foldline_runs WHERE model IN ({marks(models)}) AND start_time >= ? AND start_time < ?"
    values = [*models, begin, end]
    [(count, errors, input_tokens, output_tokens, cost, unpriced)] = connection.rows(
        f"SELECT {SUMS} {calls}", values
    )
    rows = []
    if count:
        every = max(1, count // SAMPLE)
        rows = connection.rows(
            f"SELECT end_time - start_time, first_token_time - start_time {calls} AND seq % ? = 0",
            [*values, every],
        )
    times = sorted(row[0] for row in rows if row[0] is not None)
    first_times = sorted(row[1] for row in rows if row[1] is not None)
    return {
        "time": begin,
        "calls": count,
        "errors": errors,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cost": cost,
        "unpriced": unpriced,
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
