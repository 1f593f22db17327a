"""A tracer that writes runs into one SQLite file, safe under many threads and processes.

The run pays for one entry in a queue that has no lock. A thread from foldline's pool makes rows of the runs, many at a
time, writes them in short transactions and leaves when there is nothing more. A file that is locked, full or gone costs
rows, never the run: they are counted in `dropped`, and the trouble is logged once.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import weakref
from collections import deque
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from foldline._io import ASYNC, BLOCKING
from foldline._io.drive import drive
from foldline._io.locks import mutex
from foldline._io.waiting import THREADS
from foldline.exceptions import StoreError
from foldline.tracers._redact import Redactor
from foldline.tracers._rows import UPSERT, RowWriter, connect
from foldline.tracers.base import BaseTracer
from foldline.tracers.core import llm_outputs
from foldline.tracers.schemas import Run

if TYPE_CHECKING:
    from foldline.outputs import LLMResult

__all__ = ["SQLiteTracer"]

logger = logging.getLogger("foldline.tracers")

BATCH = 2_000
"""Runs of one transaction."""
GATHERING = 0.05
"""Seconds that runs gather before they are written together; most have ended by then and cost one row, not two."""
ATTEMPTS = 3
"""How often a transaction is tried that finds the file locked."""


class SQLiteTracer(BaseTracer):
    """Writes every run into a SQLite file; read it with `TraceStore`.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.runnables import RunnableLambda
    from foldline.tracers import SQLiteTracer, TraceStore

    path = Path(tempfile.mkdtemp()) / "traces.db"
    with SQLiteTracer(path) as tracer:
        RunnableLambda(lambda x: x + 1).with_config(run_name="add").invoke(1, {"callbacks": [tracer]})
    run = TraceStore(path).recent()[0]
    print(run.name, run.inputs, run.outputs)
    #> add {'input': 1} {'output': 2}
    ```
    """

    run_inline = True
    keep_tokens = False

    def __init__(
        self, path: str | Path, *, limit: int = 10_000, secrets: Iterable[str] = ()
    ) -> None:
        """Open or make the file; `limit` runs may wait to be written, `secrets` are values never to write."""
        super().__init__(_schema_format="original+chat")
        self._writer = _Writer(Path(path), limit, Redactor(secrets))
        self._finalizer = weakref.finalize(self, self._writer.close)

    @property
    def path(self) -> Path:
        """Where the traces are."""
        return self._writer.path

    @property
    def dropped(self) -> int:
        """How many runs were not written."""
        return self._writer.dropped

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def flush(self) -> None:
        """Write what is still to be written."""
        self._writer.flush()

    async def aflush(self) -> None:
        """Write what is still to be written."""
        await ASYNC.call(self._writer.flush)

    def close(self) -> None:
        """Write what is still to be written, and close the file; runs told of later are dropped and counted."""
        self._finalizer()

    @staticmethod
    def _add_child_run(parent_run: Run, child_run: Run) -> None:
        """The file knows who is whose child: an agent that runs for days must not pile up in memory."""

    def _persist_run(self, run: Run) -> None:
        """Each run was handed over when it began and when it ended."""

    def _llm_outputs(self, response: LLMResult) -> dict[str, Any]:
        return llm_outputs(response, dump=False)  # the writer dumps what it writes

    def _on_run_create(self, run: Run) -> None:
        self._writer.put(run)

    def _on_run_update(self, run: Run) -> None:
        self._writer.put(run)


class _Writer:
    def __init__(self, path: Path, limit: int, redactor: Redactor) -> None:
        self.path = path
        self.dropped = 0
        self._limit = limit
        self._redactor = redactor
        self._is_closed = False
        self._has_complained = False
        self._begin()
        connect(
            path
        ).close()  # a file that cannot be used is refused here, not in the middle of a run

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._waiting: deque[Run] = deque()
        self._is_waiting: set[UUID] = set()
        """The ids of what waits; an id is taken out before its run is read, so that what changes later is put anew."""
        self._lock = mutex()  # of who writes; what waits needs none
        self._file_lock = (
            mutex()
        )  # held while writing: only the pool's thread and `flush` ever wait for it
        self._is_writing = False

    def _begin_again_after_fork(self) -> None:
        """A forked child has its parent's locks but not the thread that holds them."""
        if self._pid != os.getpid():
            self._begin()

    def put(self, run: Run) -> None:
        """Have a run written, soon; one that waits already is written as it is then."""
        self._begin_again_after_fork()
        if self._is_closed or (run.id not in self._is_waiting and self._is_full):
            self._count_lost(1)
            return
        if run.id not in self._is_waiting:
            self._is_waiting.add(run.id)
            self._waiting.append(run)
        if not self._is_writing and self._become_writer():
            THREADS.submit(self._write_waiting)

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) >= self._limit

    def _become_writer(self) -> bool:
        with self._lock:
            is_first, self._is_writing = not self._is_writing, True
        return is_first

    def _count_lost(self, count: int) -> None:
        with self._lock:
            self.dropped += count

    def flush(self) -> None:
        self._begin_again_after_fork()
        while self._waiting:
            self._write_batch()
        with self._file_lock:  # what another thread has taken is written when it lets go
            pass

    def close(self) -> None:
        self.flush()
        with self._lock:
            self._is_closed = True

    def _write_waiting(self) -> None:
        while True:
            drive(BLOCKING.sleep(GATHERING))
            self._write_batch()
            if self._waiting:
                continue
            self._is_writing = False
            # Looked at again: what was put in between found a writer, and sent for no other.
            if not self._waiting or not self._become_writer():
                return

    def _write_batch(self) -> None:
        with self._file_lock:
            runs: list[Run] = []
            while self._waiting and len(runs) < BATCH:
                run = self._waiting.popleft()
                self._is_waiting.discard(run.id)
                runs.append(run)
            if runs:
                self._write(runs)

    def _write(self, runs: list[Run]) -> None:
        try:
            writer = RowWriter(self._redactor)
            rows = [writer.row(run) for run in runs]
            tags = [row for run in runs for row in writer.tags(run)]
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._transact(rows, tags)
                    return
                except (sqlite3.OperationalError, StoreError) as error:
                    if "locked" not in str(error) or attempt == ATTEMPTS:
                        raise
        except Exception as error:  # noqa: BLE001  whatever is wrong with the file, the run goes on
            self._lose(len(runs), error)

    def _transact(self, rows: list[tuple[Any, ...]], tags: list[tuple[str, str]]) -> None:
        # A connection of its own for each transaction: SQLite forbids to carry one into a forked child.
        with closing(connect(self.path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(UPSERT, rows)
            connection.executemany("INSERT OR IGNORE INTO tags (tag, run_id) VALUES (?, ?)", tags)
            connection.execute("COMMIT")  # closing before this line undoes it all

    def _lose(self, count: int, error: Exception) -> None:
        self._count_lost(count)
        if self._has_complained:
            logger.debug("%s: %d more runs were not written: %r", self.path, count, error)
            return
        self._has_complained = True
        logger.warning(
            "%s: %d runs were not written: %r; what is lost from now on is counted in `dropped`",
            self.path,
            count,
            error,
        )
