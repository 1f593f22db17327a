"""Read traces from the file that `SQLiteTracer` writes: lists, trees, searches, figures; score and delete.

Reading does not disturb who writes. Every method has an awaited twin whose name begins with `a`.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from foldline._io import ASYNC
from foldline.exceptions import StoreError, UsageError
from foldline.tracers._index import has_index, unindex
from foldline.tracers._rows import StoredRun, runs_of
from foldline.tracers._schema import COLUMNS, connect
from foldline.tracers._summary import Filters, TraceSummary, summarize
from foldline.utils.short_repr import short_repr
from foldline.utils.uuid import uuid7

__all__ = ["Filters", "StoredRun", "TraceStore", "TraceSummary"]

T = TypeVar("T")
SELECT = (
    f"SELECT {', '.join(f'runs.{name}' for name in COLUMNS)}, forms.body "
    "FROM runs LEFT JOIN forms ON forms.id = runs.form"
)
DELETED_AT_ONCE = 500


class TraceStore:
    """Reads traces; may be used while a tracer writes.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.tracers import TraceStore

    print(TraceStore(Path(tempfile.mkdtemp()) / "traces.db").recent())
    #> []
    ```
    """

    def __init__(self, path: str | Path) -> None:
        self.path: Path = Path(path)

    __repr__ = short_repr

    # -- whole runs

    def trace(self, trace_id: UUID | str) -> StoredRun | None:
        """Return a trace as its root run, children below in the order they began; None where there is none."""
        runs = self._runs(
            "WHERE runs.trace_id = ? ORDER BY runs.start_time, runs.seq", str(trace_id)
        )
        by_id = {str(run.id): run for run in runs}
        for score in self._all(
            "SELECT run_id, id, name, value, comment, author, time FROM scores "
            "WHERE run_id IN (SELECT id FROM runs WHERE trace_id = ?) ORDER BY time",
            (str(trace_id),),
        ):
            if score[0] in by_id:
                keys = ("id", "name", "value", "comment", "author", "time")
                by_id[score[0]].scores.append(dict(zip(keys, score[1:], strict=True)))
        return _tree(runs)

    def recent(self, limit: int = 20) -> list[StoredRun]:
        """Return the roots of the newest traces, newest first, without their children."""
        return self._runs(
            "WHERE runs.parent_run_id IS NULL ORDER BY runs.start_time DESC LIMIT ?", limit
        )

    def between(self, start: datetime, end: datetime) -> list[StoredRun]:
        """Return all runs that began from one time on and before another, oldest first."""
        times = (start.timestamp(), end.timestamp())
        return self._runs(
            "WHERE runs.start_time >= ? AND runs.start_time < ? ORDER BY runs.start_time", *times
        )

    def errors(self, limit: int = 100) -> list[StoredRun]:
        """Return the newest runs that failed, newest first."""
        return self._runs(
            "WHERE runs.error_class IS NOT NULL ORDER BY runs.start_time DESC LIMIT ?", limit
        )

    def by_tag(self, tag: str, limit: int = 100) -> list[StoredRun]:
        """Return the newest runs that have a tag, newest first."""
        return self._runs(
            "WHERE runs.id IN (SELECT run_id FROM tags WHERE tag = ?) ORDER BY runs.start_time DESC LIMIT ?",
            tag,
            limit,
        )

    # -- lists

    def find(
        self, filters: Filters | None = None, *, limit: int = 50, offset: int = 0
    ) -> list[TraceSummary]:
        """Return the newest traces that fit, newest first, as short summaries: no long value is read.

        A trace fits where one of its runs does; a search (`text`) brings the full-text index up to date first.
        """
        with self._reading() as connection:
            traces = (filters or Filters()).select(connection, limit, offset)
            return summarize(connection, traces)

    def count(self, filters: Filters | None = None) -> int:
        """Return how many traces fit."""
        with self._reading() as connection:
            return (filters or Filters()).count(connection)

    def resolve(self, short_id: str) -> str | None:
        """Return the id of the trace that has a run whose id begins or ends so; None where there is none."""
        wanted = short_id.lower().strip()
        exact = self._all("SELECT trace_id FROM runs WHERE id = ?", (wanted,))
        if exact:
            return str(exact[0][0])
        if len(wanted) < 4 or not set(wanted) <= set("0123456789abcdef-"):
            return None
        found = self._all(
            "SELECT DISTINCT trace_id FROM runs WHERE id LIKE ? OR id LIKE ? LIMIT 2",
            (f"{wanted}%", f"%{wanted}"),
        )
        if len(found) > 1:
            raise UsageError(f"more than one trace has an id like {short_id!r}: write more of it")
        return str(found[0][0]) if found else None

    def values(self, column: str) -> list[str]:
        """Return the values of one column, for a choice: `model`, `session_id`, `thread_id`, `user_id`, ..."""
        if column not in ("model", "provider", "session_id", "thread_id", "user_id", "run_type"):
            raise UsageError(f"no choice is made by {column!r}")
        # Walks the index from value to value instead of reading every entry of it.
        walk = (
            f"WITH RECURSIVE v(x) AS (SELECT min({column}) FROM runs WHERE {column} IS NOT NULL UNION ALL "
            f"SELECT (SELECT min({column}) FROM runs WHERE {column} > x) FROM v WHERE x IS NOT NULL) "
            "SELECT x FROM v WHERE x IS NOT NULL LIMIT 1000"
        )
        return [str(row[0]) for row in self._all(walk)]

    def figures(
        self, start: float, end: float, step: float, model: str | None = None
    ) -> list[dict[str, Any]]:
        """Return model calls in steps of time: count, errors, tokens, cost, and latencies at 50 and 95 percent."""
        where, values = "", [start, end]
        if model:
            where = " AND model = ?"
        rows = self._all(
            "SELECT start_time, end_time, first_token_time, input_tokens, output_tokens, cost, error_class, model "
            f"FROM runs WHERE model IS NOT NULL AND start_time >= ? AND start_time < ?{where} ORDER BY start_time",
            [*values, *([model] if model else [])],
        )
        return _figures(rows, start, end, step)

    def changed_since(self, seq: int, limit: int = 500) -> tuple[int, list[str]]:
        """Return the newest place in the file, and the traces with runs written after a place."""
        with self._reading() as connection:
            newest = connection.execute("SELECT max(seq) FROM runs").fetchone()[0] or 0
            traces = [
                row[0]
                for row in connection.execute(
                    "SELECT DISTINCT trace_id FROM runs WHERE seq > ? ORDER BY seq DESC LIMIT ?",
                    (seq, limit),
                )
            ]
        return int(newest), traces

    def under_way(self) -> list[str]:
        """Return the traces that have a run which did not end yet."""
        rows = self._all("SELECT DISTINCT trace_id FROM runs WHERE end_time IS NULL LIMIT 500")
        return [str(row[0]) for row in rows]

    def summaries(self, trace_ids: Sequence[str]) -> list[TraceSummary]:
        """Return the summaries of these traces."""
        with self._reading() as connection:
            return summarize(connection, list(trace_ids))

    # -- scores

    def add_score(
        self,
        run_id: UUID | str,
        name: str,
        value: float | None,
        *,
        comment: str | None = None,
        author: str | None = None,
    ) -> str:
        """Note what somebody or something says of a run; return the score's id."""
        score_id = str(uuid7())
        with self._writing() as connection:
            known = connection.execute("SELECT 1 FROM runs WHERE id = ?", (str(run_id),)).fetchone()
            if known is None:
                raise UsageError(f"there is no run {str(run_id)!r} to score")
            row = (score_id, str(run_id), name, value, comment, author, time.time())
            connection.execute("INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return score_id

    # -- deleting

    def names_of(
        self, *, trace: str | None = None, thread: str | None = None, user: str | None = None
    ) -> tuple[set[str], set[str], set[str]]:
        """Return the threads, the sessions and the runs that belong to one trace, thread or user."""
        column, value = next(
            (column, value)
            for column, value in (("trace_id", trace), ("thread_id", thread), ("user_id", user))
            if value is not None
        )
        rows = self._all(
            "SELECT thread_id, session_id, id FROM runs WHERE trace_id IN "
            f"(SELECT trace_id FROM runs WHERE {column} = ?)",
            (str(value),),
        )
        threads, sessions, runs = ({row[place] for row in rows} - {None} for place in range(3))
        return threads, sessions, runs

    def delete(
        self,
        *,
        trace: UUID | str | None = None,
        thread: str | None = None,
        session: str | None = None,
        user: str | None = None,
        before: datetime | float | None = None,
    ) -> int:
        """Delete traces by id, thread, session or user, or those that began before a time; return how many runs.

        What is deleted is overwritten in the file, and its words leave the full-text index.
        """
        wheres = {
            "trace_id = ?": None if trace is None else str(trace),
            "trace_id IN (SELECT trace_id FROM runs WHERE thread_id = ?)": thread,
            "trace_id IN (SELECT trace_id FROM runs WHERE session_id = ?)": session,
            "trace_id IN (SELECT trace_id FROM runs WHERE user_id = ?)": user,
            "trace_id IN (SELECT id FROM runs WHERE parent_run_id IS NULL AND start_time < ?)": (
                before.timestamp() if isinstance(before, datetime) else before
            ),
        }
        chosen = {where: value for where, value in wheres.items() if value is not None}
        if len(chosen) != 1:
            raise UsageError(
                "delete() takes one of `trace`, `thread`, `session`, `user` and `before`"
            )
        ((where, value),) = chosen.items()
        seqs = [row[0] for row in self._all(f"SELECT seq FROM runs WHERE {where}", (value,))]
        self._delete(seqs)
        return len(seqs)

    def prune(self, *, max_age: float | None = None, max_bytes: int | None = None) -> int:
        """Delete what is older than `max_age` seconds, then the oldest until `max_bytes` hold the rest."""
        deleted = 0
        if max_age is not None:
            deleted += self.delete(before=time.time() - max_age)
        if max_bytes is not None:
            while (used := self._used_bytes()) > max_bytes:
                roots = self.count()
                share = min(1.0, max(0.02, 1.1 * (used - max_bytes) / used))
                limit = max(1, int(roots * share))
                rows = self._all(
                    "SELECT seq FROM runs WHERE trace_id IN "
                    "(SELECT id FROM runs WHERE parent_run_id IS NULL ORDER BY start_time LIMIT ?)",
                    (limit,),
                )
                if not rows:
                    break
                self._delete([row[0] for row in rows])
                deleted += len(rows)
        if deleted:
            self._shrink()
        return deleted

    def _delete(self, seqs: list[int]) -> None:
        for at in range(0, len(seqs), DELETED_AT_ONCE):
            some = seqs[at : at + DELETED_AT_ONCE]
            marks = ", ".join("?" for _ in some)
            with self._writing() as connection:
                unindex(connection, some)
                tags = f"SELECT tags, id FROM runs WHERE tags IS NOT NULL AND seq IN ({marks})"
                pairs = [
                    (tag, run_id)
                    for text, run_id in connection.execute(tags, some)
                    for tag in json.loads(text)
                ]
                connection.executemany("DELETE FROM tags WHERE tag = ? AND run_id = ?", pairs)
                connection.execute(f"DELETE FROM runs WHERE seq IN ({marks})", some)
        with self._writing() as connection:
            used = "SELECT form FROM runs WHERE form IS NOT NULL"
            connection.execute(f"DELETE FROM forms WHERE id NOT IN ({used})")
            if has_index(connection):  # what was deleted must not stay in old segments of the index
                connection.execute("INSERT INTO words (words) VALUES ('optimize')")

    def _used_bytes(self) -> int:
        with self._reading() as connection:
            pages, free, size = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * size)

    def _shrink(self) -> None:
        with self._explaining(), closing(connect(self.path)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- the file

    @contextmanager
    def _explaining(self) -> Generator[None, None, None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: cannot read the traces: {error}") from error

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection, None, None]:
        with self._explaining(), closing(connect(self.path)) as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection, None, None]:
        with self._reading() as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")  # closing before this line undoes it all

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reading() as connection:
            return connection.execute(statement, values).fetchall()

    def _runs(self, where: str, *values: Any) -> list[StoredRun]:
        return runs_of(self._all(f"{SELECT} {where}", values), self.path)

    # -- awaited

    async def atrace(self, trace_id: UUID | str) -> StoredRun | None:
        """Return a trace as its root run, children below in the order they began; None where there is none."""
        return await self._awaited(partial(self.trace, trace_id))

    async def arecent(self, limit: int = 20) -> list[StoredRun]:
        """Return the roots of the newest traces, newest first, without their children."""
        return await self._awaited(partial(self.recent, limit))

    async def abetween(self, start: datetime, end: datetime) -> list[StoredRun]:
        """Return all runs that began from one time on and before another, oldest first."""
        return await self._awaited(partial(self.between, start, end))

    async def aerrors(self, limit: int = 100) -> list[StoredRun]:
        """Return the newest runs that failed, newest first."""
        return await self._awaited(partial(self.errors, limit))

    async def aby_tag(self, tag: str, limit: int = 100) -> list[StoredRun]:
        """Return the newest runs that have a tag, newest first."""
        return await self._awaited(partial(self.by_tag, tag, limit))

    async def afind(
        self, filters: Filters | None = None, *, limit: int = 50, offset: int = 0
    ) -> list[TraceSummary]:
        """Return the newest traces that fit, newest first, as short summaries."""
        return await self._awaited(partial(self.find, filters, limit=limit, offset=offset))

    async def _awaited(self, read: Callable[[], T]) -> T:
        result: T = await ASYNC.call(read)
        return result


def _tree(runs: list[StoredRun]) -> StoredRun | None:
    if not runs:
        return None
    known = {run.id: run for run in runs}
    root = next((run for run in runs if run.parent_run_id not in known), runs[0])
    for run in runs:
        if run is root:
            continue
        # A parent whose row was dropped or not yet written: its children hang below the root. So does a run that was
        # given the id of its own parent, of which there is one row.
        parent = known.get(run.parent_run_id, root) if run.parent_run_id else root
        parent = root if parent is run else parent
        run.parent_run = parent
        parent.child_runs.append(run)
    return root


def _figures(
    rows: list[tuple[Any, ...]], start: float, end: float, step: float
) -> list[dict[str, Any]]:
    buckets: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        buckets.setdefault(int((row[0] - start) // step), []).append(row)
    figures = []
    for place in range(max(1, int((end - start) // step))):
        some = buckets.get(place, [])
        times = sorted(row[1] - row[0] for row in some if row[1] is not None)
        firsts = sorted(row[2] - row[0] for row in some if row[2] is not None)
        costs = [row[5] for row in some if row[5] is not None]
        figures.append(
            {
                "time": start + place * step,
                "calls": len(some),
                "errors": sum(row[6] is not None for row in some),
                "input_tokens": sum(row[3] or 0 for row in some),
                "output_tokens": sum(row[4] or 0 for row in some),
                "cost": sum(costs) if costs else None,
                "p50": percentile(times, 0.5),
                "p95": percentile(times, 0.95),
                "first_p50": percentile(firsts, 0.5),
                "first_p95": percentile(firsts, 0.95),
            }
        )
    return figures


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of ordered values lies; None of none."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
