"""The thread that writes traces: reads the tracer's entries, keeps records of running runs, writes rows.

Rows go into the file in batches; a run that ends within a moment is one row. The full-text index is not written with
them: the thread does that when there is nothing else to do, and a search completes it.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from enum import IntEnum
from typing import Any, NamedTuple
from uuid import UUID

from foldline._io import BLOCKING
from foldline._io.drive import drive
from foldline._io.locks import mutex
from foldline._io.waiting import THREADS
from foldline.callbacks.stdout import name_of
from foldline.exceptions import StoreError
from foldline.tracers._columns import END_RUN, LATE, UPSERT
from foldline.tracers._database import Session, Statements, TraceDatabase, open_database
from foldline.tracers._index import index_words
from foldline.tracers._redact import Redactor
from foldline.tracers._rows import RedactHook, Row, RowWriter, RunRecord
from foldline.tracers.core import describe_retry, llm_outputs
from foldline.utils.data_places import TracePlace

__all__ = ["Action", "TraceWriter"]

logger = logging.getLogger("foldline.tracers")

BATCH = 4_000
"""Entries of one transaction."""
GATHERING = 0.05
"""Seconds that entries gather before they are written together; most runs have ended by then and cost one row."""
ATTEMPTS = 3
"""How often a transaction is tried that finds the file locked."""
INDEX_BACKLOG = 5_000
"""Runs that may wait for the full-text index while there is other work."""
ADD_TAG = "INSERT INTO tags (tag, run_id) VALUES (?, ?) ON CONFLICT DO NOTHING"
ADD_FORM = "INSERT INTO forms (id, body) VALUES (?, ?) ON CONFLICT DO NOTHING"
INHERITED: list[Session] = []
"""Sessions that a fork carried over: SQLite forbids to use, or even close, their connections."""


class Action(IntEnum):
    """The kind of an entry in the queue; an entry that starts a run has the type of the run instead."""

    FIRST = 1
    RETRY = 2
    REQUEST = 3
    END = 4
    ANSWER = 5
    FAIL = 6


Entry = tuple[Any, float, Any, Any, Any]


class _Changes(NamedTuple):
    whole_records: list[RunRecord]
    """Runs of which the file has nothing yet."""
    ended: list[RunRecord]
    """Runs whose beginning is in the file."""


class TraceWriter:
    """Takes entries without waiting and writes them into a database of traces."""

    def __init__(
        self, place: TracePlace, limit: int, redactor: Redactor, hook: RedactHook | None = None
    ) -> None:
        self.place = place
        self.dropped = 0
        self._limit = limit
        self._redactor = redactor
        self._hook = hook
        self._is_closed = False
        self._has_complained = False
        self._unindexed = 0
        self._begin()
        # A database that cannot be used is refused here, not in the middle of a run.
        self._session.read(lambda statements: statements.execute("SELECT 1"))
        self._session.close()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._database: TraceDatabase = open_database(self.place)
        self._session: Session = self._database.session()
        self._waiting: deque[Entry] = deque()
        self._open: dict[UUID, RunRecord] = {}
        """Running runs, by id; used only under `_file_lock`."""
        self._lock = mutex()  # of who writes; what waits needs none
        self._file_lock = (
            mutex()
        )  # held while writing: only the pool's thread and `flush` ever wait for it
        self._is_writing = False

    def _begin_again_after_fork(self) -> None:
        """A forked child has its parent's locks but not the thread that holds them."""
        if self._pid != os.getpid():
            INHERITED.append(self._session)
            self._begin()

    def put(self, entry: Entry) -> None:
        """Have an entry written, soon."""
        if self._is_writing and self._pid == os.getpid():
            if len(self._waiting) < self._limit or type(entry[0]) is Action:
                self._waiting.append(entry)
                return
            self._count_lost(1)
            return
        self._begin_again_after_fork()
        if self._is_closed:
            if entry[0] not in (Action.FIRST, Action.RETRY, Action.REQUEST):
                self._count_lost(1)
            return
        self._waiting.append(entry)
        if self._become_writer():
            THREADS.submit(self._write_waiting, has_user_code=self._hook is not None)

    def _become_writer(self) -> bool:
        with self._lock:
            is_first, self._is_writing = not self._is_writing, True
        return is_first

    def _count_lost(self, count: int) -> None:
        with self._lock:
            self.dropped += count

    def flush(self) -> None:
        """Write what waits."""
        self._begin_again_after_fork()
        while self._waiting:
            self._write_batch()
        with self._file_lock:  # what another thread has taken is written when it lets go
            pass

    def close(self) -> None:
        """Write what waits, and take nothing more."""
        self.flush()
        with self._lock:
            self._is_closed = True
            self._is_writing = False
        self.flush()
        with self._file_lock:
            if self._unindexed:
                self._index()
            self._session.close()
            self._database.close()

    def _write_waiting(self) -> None:
        while True:
            drive(BLOCKING.sleep(GATHERING))
            self._write_batch()
            if self._waiting:
                continue
            with self._file_lock:
                if self._unindexed:
                    self._index()
                    continue
                self._session.close()
            self._is_writing = False
            # Checked again: an entry put meanwhile found a writer and did not start another.
            if self._is_closed or not self._waiting or not self._become_writer():
                return

    def _write_batch(self) -> None:
        with self._file_lock:
            entries: list[Entry] = []
            while self._waiting and len(entries) < BATCH:
                entries.append(self._waiting.popleft())
            if entries:
                self._write(entries)
            if self._unindexed > INDEX_BACKLOG:
                self._index()

    # -- entries as records

    def _write(self, entries: list[Entry]) -> None:
        new_records: dict[int, RunRecord] = {}
        """Records of this batch that the file does not have, in the order in which they began."""
        ended: list[RunRecord] = []
        for entry in entries:
            if type(entry[0]) is not Action:
                record = self._begin_record(entry)
                new_records[id(record)] = record
            elif (ending := self._apply(entry)) is not None and ending.is_written:
                ended.append(ending)
        whole_records = list(new_records.values())
        # Begun in an earlier batch that could not be written: tried again as a whole.
        whole_records += [
            record for record in self._unwritten(ended) if id(record) not in new_records
        ]
        self._store(_Changes(whole_records, [record for record in ended if record.is_written]))

    @staticmethod
    def _unwritten(records: list[RunRecord]) -> list[RunRecord]:
        return [record for record in records if not record.is_written]

    def _begin_record(self, entry: Entry) -> RunRecord:
        run_type, start, serialized, inputs, extra = entry
        run_id: UUID = extra.pop("run_id")
        parent_id: UUID | None = extra.pop("parent_run_id", None)
        parent = self._open.get(parent_id) if parent_id is not None else None
        record = RunRecord(str(run_id), parent, run_type, start)
        if parent_id is not None and parent is None:
            extra["parent_run_id"] = str(parent_id)  # a run that this tracer did not see start
        record.serialized = serialized
        record.inputs = inputs
        record.tags = extra.pop("tags", None) or []
        record.name = extra.pop("name", None) or name_of(serialized, {})
        if not extra.get("metadata"):
            extra.pop("metadata", None)
        record.extra = extra
        record.outer = self._open.get(run_id)
        self._open[run_id] = record
        return record

    def _apply(self, entry: Entry) -> RunRecord | None:
        """Apply an entry to the record of its run; return the record if the run has ended."""
        action, at, run_id, content, inputs = entry
        record = self._open.get(run_id)
        if record is None:  # its beginning was dropped
            return None
        if action is Action.FIRST:
            record.first = record.first or at
            return None
        if action is Action.REQUEST:
            record.request = content
            return None
        if action is Action.RETRY:
            event = {"name": "retry", "time": at, "kwargs": describe_retry(content)}
            record.events = [*(record.events or []), event]
            return None
        record.end = at
        if action is Action.FAIL:
            record.error, record.error_class, response, inputs = content
            if response is not None and getattr(response, "generations", None):
                record.outputs = llm_outputs(response, dump=False)
        else:
            is_answer = action is Action.ANSWER
            record.outputs = llm_outputs(content, dump=False) if is_answer else content
        if inputs is not None and not record.is_written:
            record.inputs = inputs if isinstance(inputs, dict) else {"input": inputs}
        elif inputs is not None:
            record.is_written = False  # the whole row is written again
            record.inputs = inputs if isinstance(inputs, dict) else {"input": inputs}
        if record.outer is None:
            del self._open[run_id]
        else:
            self._open[run_id] = record.outer
        return record

    # -- records as rows

    def _store(self, changes: _Changes) -> None:
        count = len(changes.whole_records) + len(changes.ended)
        try:
            writer = RowWriter(self._redactor, self._hook)
            rows = [
                row for record in changes.whole_records if (row := writer.row(record)) is not None
            ]
            ends = [row for record in changes.ended if (row := writer.end_row(record)) is not None]
            tags = [
                row
                for record in changes.whole_records
                if record.tags and not record.is_refused
                for row in writer.tag_rows(record)
            ]
            forms = list(writer.forms.items())
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._transact(rows, ends, tags, forms)
                    break
                except StoreError as error:
                    if "locked" not in str(error) or attempt == ATTEMPTS:
                        raise
        except Exception as error:  # noqa: BLE001  whatever is wrong with the file, the run goes on
            self._lose(count, error)
            return
        self._unindexed += len(ends) + sum(
            record.end is not None for record in changes.whole_records
        )
        for record in changes.whole_records:
            record.release()

    def _transact(
        self,
        rows: list[Row],
        ends: list[Row],
        tags: list[tuple[str, str]],
        forms: list[tuple[str, str]],
    ) -> None:
        def write(statements: Statements) -> None:
            statements.executemany(UPSERT, rows)
            if ends:
                statements.executemany(END_RUN, ends)
                statements.executemany(LATE, [(row[-1],) for row in ends])
            if tags:
                statements.executemany(ADD_TAG, tags)
            if forms:
                statements.executemany(ADD_FORM, forms)

        self._session.write(write)

    def _index(self) -> None:
        """Bring the full-text index up to date; where that fails, a search will do it."""
        self._unindexed = 0
        try:
            index_words(self._database, self._session)
        except StoreError as error:
            logger.debug("%s: the index was not brought up to date: %r", self._database.name, error)

    def _lose(self, count: int, error: Exception) -> None:
        self._count_lost(count)
        if self._has_complained:
            logger.debug("%s: %d more runs were not written: %r", self._database.name, count, error)
            return
        self._has_complained = True
        logger.warning(
            "%s: %d runs were not written: %r; what is lost from now on is counted in `dropped`",
            self._database.name,
            count,
            error,
        )
