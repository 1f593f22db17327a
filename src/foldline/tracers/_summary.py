"""Lists of traces: which ones fit (`Filters`), and what is shown of each (`TraceSummary`). Reads short columns only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from foldline._storage.database import Connection
from foldline.tracers._columns import WAITING
from foldline.tracers._database import marks, read_value
from foldline.tracers._run_fields import first_words
from foldline.tracers._text_index import Search, TextIndex

__all__ = ["TraceFilters", "TraceSummary", "summarize"]


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """A trace in one line: of its root, and summed over its runs."""

    id: str
    name: str
    run_type: str
    start_time: float
    end_time: float | None
    first_token_time: float | None
    models: list[str]
    runs: int
    calls: int
    """How many calls of models it made."""
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    """None where the price of one of its calls is not known."""
    session_id: str | None
    thread_id: str | None
    user_id: str | None
    question: str | None
    answer: str | None
    error_class: str | None
    error: str | None
    """The first line of the root's error."""
    failed_runs: int
    status: str
    """running, done, failed, waiting (for a person's answer), or answered (it waited, and its thread went on)."""
    asks: str | None = None
    """The first words of what it asks, where it waits."""
    incomplete: bool = False
    """Whether runs of it could not be written."""
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it runs."""
        return None if self.end_time is None else max(0.0, self.end_time - self.start_time)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class TraceFilters:
    """Selects traces with a matching run. None matches everything."""

    text: str | None = None
    """Words in the inputs, the outputs or the error of a run."""
    only_errors: bool = False
    only_waiting: bool = False
    """Traces that wait for a person's answer: no other trace of their thread came after them."""
    model: str | None = None
    run_type: str | None = None
    name: str | None = None
    tag: str | None = None
    session_id: str | None = None
    thread_id: str | None = None
    user_id: str | None = None
    since: float | None = None
    until: float | None = None

    def select(
        self, index: TextIndex, connection: Connection, limit: int, offset: int
    ) -> list[str]:
        """Return the ids of the newest traces that fit."""
        if not self._restricts:
            roots = connection.rows(
                "SELECT id FROM foldline_runs WHERE parent_run_id IS NULL ORDER BY start_time DESC LIMIT ? OFFSET ?",
                (limit, offset),
            )
            return [row[0] for row in roots]
        rows: list[Any] = []
        most = FEW_MATCHES * (limit + offset)
        while True:
            source, values = self._matches(index, connection, most)
            rows = connection.rows(
                f"SELECT trace_id, max(start_time) AS newest, count(*) FROM ({source}) AS matches "
                "GROUP BY trace_id ORDER BY newest DESC",
                values,
            )
            if len(rows) >= limit + offset or sum(row[2] for row in rows) < most:
                break
            most *= MORE_MATCHES
        return [row[0] for row in rows[offset : offset + limit]]

    def count(self, index: TextIndex, connection: Connection) -> int:
        """Return how many traces fit."""
        if not self._restricts:
            roots = "SELECT count(*) FROM foldline_runs WHERE parent_run_id IS NULL"
            return int(read_value(connection, roots))
        source, values = self._matches(index, connection, None)
        distinct = f"SELECT count(DISTINCT trace_id) FROM ({source}) AS matches"
        return int(read_value(connection, distinct, values))

    @property
    def _restricts(self) -> bool:
        return any(value not in (None, False, "") for value in asdict(self).values())

    def _matches(
        self, index: TextIndex, connection: Connection, most: int | None
    ) -> tuple[str, list[Any]]:
        """Return the query for the newest runs that fit, at most so many of them; all of them in any order for None."""
        wheres: list[str] = []
        values: list[Any] = []
        source, order = "foldline_runs AS runs", "start_time"
        if self.text:
            search = index.search(connection, self.text) or _search_rows(self.text)
            source, order = search.source, search.order
            wheres.append(search.where)
            values += search.values
        for name in ("model", "run_type", "name", "session_id", "thread_id", "user_id"):
            if value := getattr(self, name):
                wheres.append(f"runs.{name} = ?")
                values.append(value)
        if self.only_errors:
            wheres.append("runs.error_class IS NOT NULL")
        if self.only_waiting:
            wheres.append(f"runs.parent_run_id IS NULL AND {IS_WAITING}")
        if self.tag:
            wheres.append("runs.id IN (SELECT run_id FROM foldline_run_tags WHERE tag = ?)")
            values.append(self.tag)
        for value, sign in ((self.since, ">="), (self.until, "<")):
            if value is not None:
                wheres.append(f"runs.start_time {sign} ?")
                values.append(value)
        query = f"SELECT runs.trace_id, runs.start_time FROM {source} WHERE {' AND '.join(wheres)}"
        if most is None:
            return query, values
        return f"{query} ORDER BY {order} DESC LIMIT ?", [*values, most]


def _search_rows(text: str) -> Search:
    """Return how to search without an index: by reading every run."""
    pattern = "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    columns = ("inputs", "outputs", "error", "name")
    like = " OR ".join(f"{name} LIKE ? ESCAPE '\\'" for name in columns)
    return Search("foldline_runs AS runs", f"({like})", [pattern] * len(columns), "start_time")


FEW_MATCHES = 8
"""Runs read per trace of a list at first, enough for most lists."""
MORE_MATCHES = 10
"""How many times more are read where those did not fill the list."""
IS_WAITING = (
    f"runs.status = '{WAITING}' AND NOT EXISTS (SELECT 1 FROM foldline_runs AS later "
    "WHERE later.thread_id = runs.thread_id AND later.parent_run_id IS NULL AND later.start_time > runs.start_time)"
)
"""Whether a root still waits: an answer continues its thread with another trace."""
SHOWN = (
    "id", "name", "run_type", "start_time", "end_time", "first_token_time", "session_id", "thread_id", "user_id",
    "question", "answer", "error_class", "status", "incomplete",
)  # fmt: skip


def summarize(connection: Connection, traces: list[str]) -> list[TraceSummary]:
    """Return the summaries of traces, in this order; one that is gone meanwhile is left out."""
    if not traces:
        return []
    among = f"IN ({marks(traces)})"
    roots = {
        row[0]: _root(row)
        for row in connection.rows(
            f"SELECT {', '.join(f'runs.{name}' for name in SHOWN)}, substr(error, 1, 300), "
            f"CASE WHEN {IS_WAITING} THEN interrupts END FROM foldline_runs AS runs WHERE id {among}",
            traces,
        )
    }
    sums = {
        row[0]: row[1:]
        for row in connection.rows(
            "SELECT trace_id, count(*), count(model), CAST(sum(input_tokens) AS BIGINT), "
            "CAST(sum(output_tokens) AS BIGINT), sum(cost), "
            "count(CASE WHEN total_tokens IS NOT NULL AND cost IS NULL THEN 1 END), min(first_token_time), "
            f"count(error_class) FROM foldline_runs WHERE trace_id {among} GROUP BY trace_id",
            traces,
        )
    }
    models: dict[str, list[str]] = {}
    for trace, model in connection.rows(
        "SELECT DISTINCT trace_id, model FROM foldline_runs "
        f"WHERE model IS NOT NULL AND trace_id {among} ORDER BY model",
        traces,
    ):
        models.setdefault(trace, []).append(model)
    scores: dict[str, dict[str, float]] = {}
    for trace, name, value in connection.rows(
        "SELECT runs.trace_id, scores.name, avg(scores.value) FROM foldline_run_scores AS scores "
        "JOIN foldline_runs AS runs ON runs.id = scores.run_id "
        f"WHERE runs.trace_id {among} GROUP BY runs.trace_id, scores.name",
        traces,
    ):
        if value is not None:
            scores.setdefault(trace, {})[name] = value
    return [
        _summary(roots[trace], sums[trace], models.get(trace, []), scores.get(trace, {}))
        for trace in traces
        if trace in roots and trace in sums
    ]


def _root(row: tuple[Any, ...]) -> dict[str, Any]:
    root = dict(zip(SHOWN, row, strict=False))
    error, interrupts = row[len(SHOWN) :]
    if interrupts is not None:
        status = WAITING
    elif root["end_time"] is None:
        status = "running"
    elif root["status"] == WAITING:
        status = "answered"
    else:
        status = "done" if error is None and root["error_class"] is None else "failed"
    return {
        **root,
        "incomplete": bool(root["incomplete"]),
        "error": _first_line(error),
        "status": status,
        "asks": None if interrupts is None else _ask_words(interrupts),
    }


def _ask_words(interrupts: str) -> str | None:
    """Return the first words of the first question; a damaged column has none."""
    try:
        questions = json.loads(interrupts)
    except ValueError:
        return None
    value = questions[0].get("value") if questions and isinstance(questions[0], dict) else None
    return first_words(value, ASK_KEYS) or (None if value is None else json.dumps(value)[:240])


ASK_KEYS = ("question", "message", "description", "prompt", "text", "action_requests")


def _first_line(error: str | None) -> str | None:
    return error.split("\n", 1)[0] if error else None


def _summary(
    root: dict[str, Any], sums: tuple[Any, ...], models: list[str], scores: dict[str, float]
) -> TraceSummary:
    runs, calls, input_tokens, output_tokens, cost, unpriced, first, failed = sums
    return TraceSummary(
        **{**root, "first_token_time": root["first_token_time"] or first},
        models=models,
        runs=runs,
        calls=calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=None if unpriced else cost,
        failed_runs=failed,
        scores=scores,
    )
