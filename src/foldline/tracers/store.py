"""Read traces from the file that `SQLiteTracer` writes: by time, by error, by tag, and one trace as a tree."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from foldline._io import ASYNC
from foldline.exceptions import StoreError
from foldline.tracers._rows import COLUMNS, connect, runs_of
from foldline.tracers.schemas import Run
from foldline.utils.short_repr import short_repr

__all__ = ["TraceStore"]

SELECT = f"SELECT {', '.join(COLUMNS)} FROM runs"


class TraceStore:
    """Reads traces; may be used while a tracer writes. Every method has an awaited twin.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.tracers import TraceStore

    print(TraceStore(Path(tempfile.mkdtemp()) / "traces.db").recent())
    #> []
    ```
    """

    __repr__ = short_repr

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def trace(self, trace_id: UUID | str) -> Run | None:
        """Give a trace as its root run, children below in the order they began; None where there is none."""
        return _tree(self._runs("WHERE trace_id = ? ORDER BY dotted_order", str(trace_id)))

    def recent(self, limit: int = 20) -> list[Run]:
        """Give the roots of the newest traces, newest first, without their children."""
        return self._runs("WHERE parent_run_id IS NULL ORDER BY start_time DESC LIMIT ?", limit)

    def between(self, start: datetime, end: datetime) -> list[Run]:
        """Give all runs that began from one time on and before another, oldest first."""
        times = (start.timestamp(), end.timestamp())
        return self._runs("WHERE start_time >= ? AND start_time < ? ORDER BY start_time", *times)

    def errors(self, limit: int = 100) -> list[Run]:
        """Give the newest runs that failed, newest first."""
        return self._runs("WHERE error IS NOT NULL ORDER BY start_time DESC LIMIT ?", limit)

    def by_tag(self, tag: str, limit: int = 100) -> list[Run]:
        """Give the newest runs that have a tag, newest first."""
        tagged = (
            "WHERE id IN (SELECT run_id FROM tags WHERE tag = ?) ORDER BY start_time DESC LIMIT ?"
        )
        return self._runs(tagged, tag, limit)

    async def atrace(self, trace_id: UUID | str) -> Run | None:
        """Give a trace as its root run, children below in the order they began; None where there is none."""
        found: Run | None = await ASYNC.call(self.trace, trace_id)
        return found

    async def arecent(self, limit: int = 20) -> list[Run]:
        """Give the roots of the newest traces, newest first, without their children."""
        return await self._awaited(self.recent, limit)

    async def abetween(self, start: datetime, end: datetime) -> list[Run]:
        """Give all runs that began from one time on and before another, oldest first."""
        return await self._awaited(self.between, start, end)

    async def aerrors(self, limit: int = 100) -> list[Run]:
        """Give the newest runs that failed, newest first."""
        return await self._awaited(self.errors, limit)

    async def aby_tag(self, tag: str, limit: int = 100) -> list[Run]:
        """Give the newest runs that have a tag, newest first."""
        return await self._awaited(self.by_tag, tag, limit)

    async def _awaited(self, method: Any, *args: Any) -> list[Run]:
        found: list[Run] = await ASYNC.call(method, *args)
        return found

    def _runs(self, where: str, *values: object) -> list[Run]:
        try:
            with closing(connect(self.path)) as connection:
                rows = connection.execute(f"{SELECT} {where}", values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: cannot read the traces: {error}") from error
        return runs_of(rows, self.path)


def _tree(runs: list[Run]) -> Run | None:
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
