"""Read traces from where a tracer writes them, SQLite or PostgreSQL: lists, trees, searches, figures; score and delete.

Reading does not disturb who writes. What returns runs or lists of traces has an async form whose name begins with `a`.
"""

from __future__ import annotations

import json
import logging
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from foldline._io import ASYNC
from foldline._lazy import publish
from foldline._storage.database import Connection
from foldline.exceptions import StoreError, UsageError
from foldline.tracers._columns import COLUMNS
from foldline.tracers._database import TraceDatabase, marks, read_value
from foldline.tracers._index import index_words, turn_back, unindex
from foldline.tracers._rows import StoredRun, read_tags, runs_of
from foldline.tracers._statistics import read_figures
from foldline.tracers._summary import TraceFilters, TraceSummary, summarize
from foldline.utils._data_places import is_url
from foldline.utils._options import check_options
from foldline.utils.uuid import uuid7

__all__ = [
    "TraceFilters",
    "TraceStore",
]

publish(__name__, TraceFilters, TraceSummary)

T = TypeVar("T")
logger = logging.getLogger("foldline.tracers")
SELECT = (
    f"SELECT {', '.join(f'runs.{name}' for name in COLUMNS)}, forms.body "
    "FROM foldline_runs AS runs LEFT JOIN foldline_run_forms AS forms ON forms.id = runs.form"
)
ROOTS = "SELECT id FROM foldline_runs WHERE parent_run_id IS NULL"
DELETED_AT_ONCE = 500


class TraceNames(NamedTuple):
    """The names under which other stores know what was traced."""

    threads: set[str]
    sessions: set[str]
    served_runs: set[str]
    """Ids in the run log of `foldline serve`."""
    checkpoints: set[str]
    """Threads as checkpointers know them, which `foldline serve` begins with the id of a key."""


class TraceStore:
    """Reads traces, from a file or a PostgreSQL database; may be used while a tracer writes.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.tracers import TraceStore

    print(TraceStore(Path(tempfile.mkdtemp()) / "traces.db").recent())
    #> []
    ```
    """

    @check_options()
    def __init__(self, path: str | Path) -> None:
        """Read the traces of a file, or of a database by its URL (`postgresql://user@host/name`)."""
        self.path: str | Path = path if is_url(path) else Path(path)
        self._database = TraceDatabase(self.path)
        weakref.finalize(self, self._database.close)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(path={self.name!r})"

    @property
    def name(self) -> str:
        """Where the traces are, for people to read: without the password of a URL."""
        return self._database.name

    def exists(self) -> bool:
        """Whether there are traces: the file, or the tables in the database."""
        return self._database.exists()

    def close(self) -> None:
        """Close idle connections; the next call opens new ones."""
        self._database.close()

    # -- whole runs

    def trace(self, trace_id: UUID | str) -> StoredRun | None:
        """Return a trace as its root run, children below in the order they began; None where there is none."""
        runs = self._runs(
            "WHERE runs.trace_id = ? ORDER BY runs.start_time, runs.seq", str(trace_id)
        )
        by_id = {str(run.id): run for run in runs}
        for score in self._all(
            "SELECT run_id, id, name, value, comment, author, time FROM foldline_run_scores "
            "WHERE run_id IN (SELECT id FROM foldline_runs WHERE trace_id = ?) ORDER BY time",
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
            "WHERE runs.id IN (SELECT run_id FROM foldline_run_tags WHERE tag = ?) "
            "ORDER BY runs.start_time DESC LIMIT ?",
            tag,
            limit,
        )

    # -- lists

    def find(
        self, filters: TraceFilters | None = None, *, limit: int = 50, offset: int = 0
    ) -> list[TraceSummary]:
        """Return the newest traces that fit, newest first, as short summaries: no long value is read.

        A trace fits where one of its runs does; a search (`text`) brings the full-text index up to date first.
        """
        chosen = filters or TraceFilters()
        self._index_for(chosen)

        def read(connection: Connection) -> list[TraceSummary]:
            traces = chosen.select(self._database.index, connection, limit, offset)
            return summarize(connection, traces)

        return self._database.read(read)

    def count(self, filters: TraceFilters | None = None) -> int:
        """Return how many traces fit."""
        chosen = filters or TraceFilters()
        self._index_for(chosen)
        return self._database.read(
            lambda connection: chosen.count(self._database.index, connection)
        )

    def _index_for(self, filters: TraceFilters) -> None:
        """Bring the full-text index up to date for a search."""
        if not filters.text:
            return
        try:
            index_words(self._database)
        except StoreError as error:
            # What may only be read, or is written for long, is searched as far as it is indexed.
            if not any(
                word in str(error) for word in ("readonly", "read-only", "locked", "denied")
            ):
                raise

    def resolve(self, short_id: str) -> str | None:
        """Return the id of the trace that has a run whose id begins or ends so; None where there is none."""
        prefix = short_id.lower().strip()
        exact = self._all("SELECT trace_id FROM foldline_runs WHERE id = ?", (prefix,))
        if exact:
            return str(exact[0][0])
        if len(prefix) < 4 or not set(prefix) <= set("0123456789abcdef-"):
            return None
        traces = self._all(
            "SELECT DISTINCT trace_id FROM foldline_runs WHERE id LIKE ? OR id LIKE ? LIMIT 2",
            (f"{prefix}%", f"%{prefix}"),
        )
        if len(traces) > 1:
            raise UsageError(f"more than one trace has an id like {short_id!r}: write more of it")
        return str(traces[0][0]) if traces else None

    def values(self, column: str) -> list[str]:
        """Return the values of one column, for a choice: `model`, `session_id`, `thread_id`, `user_id`, ..."""
        if column not in ("model", "provider", "session_id", "thread_id", "user_id", "run_type"):
            raise UsageError(f"no choice is made by {column!r}")
        # Walks the index from value to value instead of reading every entry of it.
        walk = (
            f"WITH RECURSIVE v(x) AS (SELECT min({column}) FROM foldline_runs WHERE {column} IS NOT NULL UNION ALL "
            f"SELECT (SELECT min({column}) FROM foldline_runs WHERE {column} > x) FROM v WHERE x IS NOT NULL) "
            "SELECT x FROM v WHERE x IS NOT NULL LIMIT 1000"
        )
        return [str(row[0]) for row in self._all(walk)]

    def newest_threads(self, limit: int) -> list[str]:
        """Return the threads with the newest runs, newest first."""
        rows = self._all(
            "SELECT thread_id FROM foldline_runs WHERE thread_id IS NOT NULL GROUP BY thread_id "
            "ORDER BY max(start_time) DESC LIMIT ?",
            (limit,),
        )
        return [str(row[0]) for row in rows]

    def figures(
        self, start: float, end: float, step: float, model: str | None = None
    ) -> list[dict[str, Any]]:
        """Return model calls in steps of time: count, errors, tokens, cost, and latencies at 50 and 95 percent.

        `cost` is that of the calls whose price is known; `unpriced` counts the others.
        """
        # Without calls there are no figures by model: zeros.
        models = [model] if model else self.values("model") or [""]
        return self._database.read(
            lambda connection: read_figures(connection, models, start, end, step)
        )

    def figures_by_model(self, start: float, end: float) -> list[dict[str, Any]]:
        """Return the figures of a span of time for each model, the most called first."""
        models = self.values("model")

        def read(connection: Connection) -> list[dict[str, Any]]:
            return [
                {"model": model, **read_figures(connection, [model], start, end, end - start)[0]}
                for model in models
            ]

        rows = [row for row in self._database.read(read) if row["calls"]]
        return sorted(rows, key=lambda row: row["calls"], reverse=True)

    def newest_place(self) -> int:
        """Return the place of the run that was written last; 0 where there is none."""
        return int(self._all("SELECT max(seq) FROM foldline_runs")[0][0] or 0)

    def changed_since(self, seq: int, limit: int = 500) -> tuple[int, list[str]]:
        """Return the newest place, and the traces with runs written after a place, the newest first."""

        def read(connection: Connection) -> tuple[int, list[str]]:
            newest = read_value(connection, "SELECT max(seq) FROM foldline_runs") or 0
            rows = connection.rows(
                "SELECT trace_id FROM foldline_runs WHERE seq > ? ORDER BY seq DESC LIMIT ?",
                (seq, limit * 8),
            )
            return int(newest), list(dict.fromkeys(row[0] for row in rows))[:limit]

        return self._database.read(read)

    def under_way(self) -> list[str]:
        """Return the traces that have a run which did not end yet, the newest first."""
        rows = self._all(
            "SELECT trace_id FROM foldline_runs WHERE end_time IS NULL "
            "ORDER BY start_time DESC LIMIT 2000"
        )
        return list(dict.fromkeys(str(row[0]) for row in rows))[:500]

    def losses(self) -> list[dict[str, Any]]:
        """Return when runs could not be written, and how many, newest first: `start_time`, `end_time`, `runs`."""
        rows = self._all(
            "SELECT start_time, end_time, runs FROM foldline_run_losses ORDER BY end_time DESC"
        )
        return [dict(zip(("start_time", "end_time", "runs"), row, strict=True)) for row in rows]

    def summaries(self, trace_ids: Sequence[str]) -> list[TraceSummary]:
        """Return the summaries of these traces."""
        return self._database.read(lambda connection: summarize(connection, list(trace_ids)))

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
        """Add a score to a run; return the id of the score."""
        row = (str(uuid7()), str(run_id), name, value, comment, author, time.time())

        def write(connection: Connection) -> None:
            if connection.row("SELECT 1 FROM foldline_runs WHERE id = ?", (str(run_id),)) is None:
                raise UsageError(f"there is no run {str(run_id)!r} to score")
            connection.run(
                "INSERT INTO foldline_run_scores VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                row,
            )

        self._database.write(write)
        return row[0]

    # -- deleting

    def names_of(
        self, *, trace: str | None = None, thread: str | None = None, user: str | None = None
    ) -> TraceNames:
        """Return under which names a trace, or all traces of a thread or a user, are known elsewhere."""
        column, value = next(
            (column, value)
            for column, value in (("trace_id", trace), ("thread_id", thread), ("user_id", user))
            if value is not None
        )
        rows = self._all(
            "SELECT thread_id, session_id, extra, config, id FROM foldline_runs WHERE trace_id IN "
            f"(SELECT trace_id FROM foldline_runs WHERE {column} = ?)",
            (str(value),),
        )
        return TraceNames(
            threads={row[0] for row in rows} - {None},
            sessions={row[1] for row in rows} - {None},
            served_runs={run for row in rows if (run := self._served_run(row)) is not None},
            checkpoints={name for row in rows for name in self._checkpoint_threads(row)},
        )

    def _served_run(self, row: Sequence[Any]) -> str | None:
        """Return the id of the server's run that a run belongs to."""
        if "serve_run_id" not in row[2]:
            return None
        run = self._metadata(row).get("serve_run_id")
        return None if run is None else str(run)

    def _checkpoint_threads(self, row: Sequence[Any]) -> set[str]:
        """Return the threads of a run in checkpointers; a trace of an older version has the key and not the config."""
        thread, _, extra, config, _ = row
        names = {self._load(config, row).get("thread_id")} if config else set()
        if thread is not None and "serve_key" in extra:
            names.add(f"{self._metadata(row).get('serve_key')}:{thread}")
        return {str(name) for name in names if name is not None}

    def _metadata(self, row: Sequence[Any]) -> dict[str, Any]:
        metadata = self._load(row[2], row).get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    def _load(self, text: str, row: Sequence[Any]) -> dict[str, Any]:
        """Read JSON of a run; what is damaged is reported, so that it does not keep the others from being forgotten."""
        try:
            loaded = json.loads(text)
        except (ValueError, RecursionError):
            loaded = None
        if isinstance(loaded, dict):
            return loaded
        logger.warning(
            "%s: the run %.40s is damaged: names under which other stores know it may be missing",
            self.name,
            row[4],
        )
        return {}

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
            "trace_id IN (SELECT trace_id FROM foldline_runs WHERE thread_id = ?)": thread,
            "trace_id IN (SELECT trace_id FROM foldline_runs WHERE session_id = ?)": session,
            "trace_id IN (SELECT trace_id FROM foldline_runs WHERE user_id = ?)": user,
            f"trace_id IN ({ROOTS} AND start_time < ?)": (
                before.timestamp() if isinstance(before, datetime) else before
            ),
        }
        chosen = {where: value for where, value in wheres.items() if value is not None}
        if len(chosen) != 1:
            raise UsageError(
                "delete() takes one of `trace`, `thread`, `session`, `user` and `before`"
            )
        ((where, value),) = chosen.items()
        seqs = [
            row[0] for row in self._all(f"SELECT seq FROM foldline_runs WHERE {where}", (value,))
        ]
        self._delete(seqs)
        return len(seqs)

    def prune(self, *, max_age: float | None = None, max_bytes: int | None = None) -> int:
        """Delete what is older than `max_age` seconds, then the oldest until `max_bytes` hold the rest."""
        deleted = 0
        if max_age is not None:
            oldest = time.time() - max_age
            deleted += self.delete(before=oldest)
            self._database.write(partial(_delete_losses, oldest))
        if max_bytes is not None:
            while (used := self._database.used_bytes()) > max_bytes:
                roots = self.count()
                share = min(1.0, max(0.02, 1.1 * (used - max_bytes) / used))
                limit = max(1, int(roots * share))
                rows = self._all(
                    f"SELECT seq FROM foldline_runs WHERE trace_id IN ({ROOTS} ORDER BY start_time LIMIT ?)",
                    (limit,),
                )
                if not rows:
                    break
                self._delete([row[0] for row in rows])
                deleted += len(rows)
        if deleted:
            self._database.shrink()
        return deleted

    def _delete(self, seqs: list[int]) -> None:
        for at in range(0, len(seqs), DELETED_AT_ONCE):
            self._database.write(partial(self._delete_some, seqs[at : at + DELETED_AT_ONCE]))

        def clean(connection: Connection) -> None:
            used = "SELECT form FROM foldline_runs WHERE form IS NOT NULL"
            connection.run(f"DELETE FROM foldline_run_forms WHERE id NOT IN ({used})")
            self._database.index.end_deletion(connection)

        self._database.write(clean)

    def _delete_some(self, seqs: list[int], connection: Connection) -> None:
        self._database.index.begin_deletion(connection)
        unindex(self._database.index, connection, seqs)
        among = f"seq IN ({marks(seqs)})"
        tags = f"SELECT tags, id FROM foldline_runs WHERE tags IS NOT NULL AND {among}"
        _delete_tags(connection, connection.rows(tags, seqs))
        runs = f"SELECT id FROM foldline_runs WHERE {among}"
        connection.run(f"DELETE FROM foldline_run_scores WHERE run_id IN ({runs})", seqs)
        connection.run(f"DELETE FROM foldline_runs WHERE {among}", seqs)
        turn_back(connection)

    # -- the database

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._database.rows(statement, values)

    def _runs(self, where: str, *values: Any) -> list[StoredRun]:
        return runs_of(self._all(f"{SELECT} {where}", values), self.name)

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
        self, filters: TraceFilters | None = None, *, limit: int = 50, offset: int = 0
    ) -> list[TraceSummary]:
        """Return the newest traces that fit, newest first, as short summaries."""
        return await self._awaited(partial(self.find, filters, limit=limit, offset=offset))

    async def _awaited(self, read: Callable[[], T]) -> T:
        result: T = await ASYNC.call(read)
        return result


def _tree(runs: list[StoredRun]) -> StoredRun | None:
    if not runs:
        return None
    by_id = {run.id: run for run in runs}
    root = next((run for run in runs if run.parent_run_id not in by_id), runs[0])
    for run in runs:
        if run is root:
            continue
        # A parent whose row was dropped or not yet written: its children are put below the root. So is a run with
        # the id of its parent, for which there is one row.
        parent = by_id.get(run.parent_run_id, root) if run.parent_run_id else root
        parent = root if parent is run else parent
        run.parent_run = parent
        parent.child_runs.append(run)
    return root


def _delete_losses(oldest: float, connection: Connection) -> None:
    connection.run("DELETE FROM foldline_run_losses WHERE end_time < ?", (oldest,))


def _delete_tags(connection: Connection, runs: list[tuple[Any, ...]]) -> None:
    """Delete the tags of runs, by the key of their table; those of a run whose own list is damaged by its id."""
    pairs: list[tuple[str, str]] = []
    damaged: list[tuple[str]] = []
    for text, run_id in runs:
        tags = read_tags(text)
        if tags is None:
            damaged.append((run_id,))
        else:
            pairs += [(tag, run_id) for tag in tags]
    connection.each("DELETE FROM foldline_run_tags WHERE tag = ? AND run_id = ?", pairs)
    connection.each("DELETE FROM foldline_run_tags WHERE run_id = ?", damaged)
