"""The thread that writes traces: reads the tracer's entries, keeps records of running runs, writes rows.

Rows go into the file in batches; a run that ends within a moment is one row. The full-text index is not written with
them: the thread does that when there is nothing else to do, and a search completes it.

Where runs start faster than they are written, the queue fills, and a start waits for room (`overflow="wait"`): at most
`trace_wait` seconds for all runs of a trace. A store that does not write for so long, or that fails, counts as gone:
nothing waits for it, what does not fit into the queue is dropped and counted, until a batch is written again.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from contextvars import ContextVar
from typing import Literal, NamedTuple
from uuid import UUID

from foldline._io import BLOCKING, IO
from foldline._io.drive import drive
from foldline._io.locks import mutex
from foldline._io.waiting import THREADS
from foldline._storage.database import Connection
from foldline.callbacks.dispatch import HookWait
from foldline.exceptions import StoreError, UsageError
from foldline.tracers._columns import ADD_LOSS, END_RUN, LATE, MARK_INCOMPLETE, UPSERT
from foldline.tracers._database import TraceDatabase
from foldline.tracers._index import index_words
from foldline.tracers._records import ENDINGS, Action, Entry, OpenRuns
from foldline.tracers._redact import Redactor
from foldline.tracers._rows import RedactHook, Row, RowWriter, TraceRow
from foldline.utils._data_places import TracePlace

__all__ = ["Overflow", "TraceWriter", "WriterOptions"]

logger = logging.getLogger("foldline.tracers")

Overflow = Literal["wait", "drop"]
BATCH = 4_000
"""Entries of one transaction."""
GATHERING = 0.05
"""Seconds that entries gather before they are written together; most runs have ended by then and cost one row."""
INDEX_BACKLOG = 5_000
"""Runs that may wait for the full-text index while there is other work."""
MOST_LIMITS = 20
"""How many times `limit` the queue may hold when many starts come at once; what comes then waits outside."""
SHORTEST_PAUSE = 0.005
PAUSE_OF_ONE = 0.0001
"""Seconds between two looks at the queue: at least, and for each start that waits, so that many do not keep it busy."""
ADD_TAG = "INSERT INTO foldline_run_tags (tag, run_id) VALUES (?, ?) ON CONFLICT DO NOTHING"
ADD_FORM = "INSERT INTO foldline_run_forms (id, body) VALUES (?, ?) ON CONFLICT DO NOTHING"
is_in_hook: ContextVar[bool] = ContextVar("foldline_trace_hook", default=False)
"""Whether the code that runs is a hook of a writer: a run that it starts must not wait for the thread it is in."""
INHERITED: list[TraceDatabase] = []
"""Databases that a fork carried over: SQLite forbids to use, or even close, their connections."""


class WriterOptions(NamedTuple):
    """How much may wait to be written, and what happens then."""

    limit: int = 10_000
    overflow: Overflow = "wait"
    trace_wait: float = 5.0
    revision: str | None = None

    def check(self) -> None:
        """Raise for values that cannot work."""
        limit: object = self.limit
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise UsageError(f"limit must be a whole number of at least 1, not {self.limit!r}")
        if self.overflow not in ("wait", "drop"):
            raise UsageError(f'overflow is "wait" or "drop", not {self.overflow!r}')
        seconds: object = self.trace_wait
        if not isinstance(seconds, int | float) or not seconds >= 0:
            raise UsageError(f"trace_wait is a number of seconds, not {self.trace_wait!r}")


class _Changes(NamedTuple):
    complete_records: list[TraceRow]
    """Runs of which the file has nothing yet."""
    ended: list[TraceRow]
    """Runs whose beginning is in the file."""


class _Rows(NamedTuple):
    complete_rows: list[Row]
    ends: list[Row]
    tags: list[tuple[str, str]]
    forms: list[tuple[str, str]]


class TraceWriter:
    """Takes entries and writes them into a database of traces."""

    def __init__(
        self,
        place: TracePlace,
        redactor: Redactor,
        hook: RedactHook | None = None,
        options: WriterOptions = WriterOptions(),  # noqa: B008  a tuple
    ) -> None:
        options.check()
        self.place = place
        self.dropped = 0
        self._options = options
        self._redactor = redactor
        self._hook = hook
        self._is_closed = False
        self._begin()
        # A database that cannot be used is refused here, not in the middle of a run.
        self._database.connect()
        self._database.release()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._database = TraceDatabase(self.place)
        self._waiting: deque[Entry] = deque()
        self._runs = OpenRuns()
        """Used only under `_file_lock`, but for what is lost."""
        self._lock = mutex()  # of who writes, and of what is lost; the queue needs none
        self._file_lock = (
            mutex()
        )  # held while writing: only the pool's thread and `flush` ever wait for it
        self._is_writing = False
        self._unindexed = 0
        self._progress = time.monotonic()
        """When a batch was written, or the queue was empty."""
        self._is_gone = False
        """Whether the store fails, or has not written for `trace_wait` seconds."""
        self._has_complained = False
        self._loss: tuple[float, int] | None = None
        """Since when runs are lost, and how many; written when something can be written again."""
        self._lost: set[UUID] = set()
        """Running runs whose start was dropped: what is below them is dropped too."""
        self._budgets: dict[UUID, list[float]] = {}
        """Running runs of traces that have waited -> the seconds their trace may still wait."""
        self._pauses = 0
        """How many starts wait for room."""

    def _begin_again_after_fork(self) -> None:
        """A forked child has its parent's locks but not the thread that holds them."""
        if self._pid != os.getpid():
            INHERITED.append(self._database)
            self._begin()

    # -- entries

    def start(self, entry: Entry) -> HookWait | None:
        """Have the start of a run written, soon; return what to wait for where the queue is full."""
        if (
            self._is_writing
            and len(self._waiting) < self._options.limit
            and not self._lost
            and not self._budgets
            and self._pid == os.getpid()
        ):
            self._waiting.append(entry)
            return None
        self._begin_again_after_fork()
        return self._start_with_care(entry)

    def _start_with_care(self, entry: Entry) -> HookWait | None:
        run_id, parent_id = entry[4]["run_id"], entry[4].get("parent_run_id")
        budget = self._budgets.get(parent_id)
        if budget is not None:
            self._budgets[run_id] = budget
        size, most = len(self._waiting), self._options.limit * MOST_LIMITS
        reason = self._refuse(size, parent_id)
        if reason is not None:
            self.drop(entry, reason)
            return None
        if size < self._options.limit or (is_in_hook.get() and size < most):
            self._append(entry)
            return None
        if budget is None:
            budget = self._budgets[run_id] = [self._options.trace_wait]
        if size >= most:
            return _RoomWait(self, budget, entry)
        self._append(entry)
        return _RoomWait(self, budget, None)

    def _refuse(self, size: int, parent_id: UUID | None) -> str | None:
        """Return why a run is left out; None where it is not."""
        if self._is_closed:
            return "the tracer is closed"
        if parent_id in self._lost:
            return "the run above was not written"
        if size < self._options.limit:
            return None
        if self._options.overflow == "drop":
            return f'{size} entries wait to be written, and overflow="drop"'
        return f"{size} entries wait for a store that does not write" if self._is_gone else None

    def put(self, entry: Entry) -> None:
        """Have an entry of a run written, soon; it never waits."""
        is_end = entry[0] in ENDINGS
        if is_end:
            if self._budgets:
                self._budgets.pop(entry[2], None)
            if self._lost and entry[2] in self._lost:
                self._lost.discard(entry[2])
                return
        if self._is_writing and self._pid == os.getpid():
            self._waiting.append(entry)
            return
        self._begin_again_after_fork()
        if self._is_closed:
            if is_end:
                self._count_lost(1, "the tracer is closed")
            return
        self._append(entry)

    def _append(self, entry: Entry) -> None:
        self._waiting.append(entry)
        if not self._is_writing and self._become_writer():
            THREADS.submit(self._write_waiting, has_user_code=self._hook is not None)

    def _become_writer(self) -> bool:
        with self._lock:
            is_first, self._is_writing = not self._is_writing, True
            if is_first:
                self._progress = time.monotonic()
        return is_first

    # -- waiting for room

    async def wait_for_room(self, io: IO, budget: list[float], entry: Entry | None) -> None:
        """Wait until the queue has room, as long as the trace may; then queue an entry that did not fit, or drop it."""
        limit = self._options.limit
        with self._lock:
            self._pauses += 1
        try:
            while budget[0] > 0 and not self._is_gone:
                size = len(self._waiting)
                if entry is not None and size < limit * MOST_LIMITS:
                    self._append(entry)
                    entry = None
                if size < limit:
                    break
                pause = max(SHORTEST_PAUSE, PAUSE_OF_ONE * self._pauses)
                before = time.monotonic()
                await io.sleep(min(pause, budget[0]))
                budget[0] -= time.monotonic() - before
                self._check_progress()
        finally:
            with self._lock:
                self._pauses -= 1
            if entry is not None:
                has_waited = budget[0] <= 0 or self._is_gone
                self._settle(entry, has_waited=has_waited)

    def _settle(self, entry: Entry, *, has_waited: bool) -> None:
        """Queue an entry that has waited long enough, twice as far as others may where the store still writes."""
        most = self._options.limit * MOST_LIMITS * (1 if self._is_gone else 2)
        if len(self._waiting) < most and not self._is_closed:
            self._append(entry)
        else:
            reason = f"there was no room for {self._options.trace_wait:g} s"
            self.drop(
                entry, reason if has_waited else "its call was cancelled while the queue was full"
            )

    def _check_progress(self) -> None:
        if time.monotonic() - self._progress > self._options.trace_wait:
            self._is_gone = True

    # -- what is lost

    def drop(self, entry: Entry, reason: str) -> None:
        """Leave out the start of a run, and all that belongs to it."""
        run_id, parent_id = entry[4]["run_id"], entry[4].get("parent_run_id")
        self._lost.add(run_id)
        if parent_id is not None and parent_id not in self._lost:
            self._runs.lost_children.add(parent_id)
        self._count_lost(1, reason)

    def _count_lost(self, count: int, reason: object) -> None:
        with self._lock:
            self.dropped += count
            since, runs = self._loss or (time.time(), 0)
            self._loss = (since, runs + count)
            is_known, self._has_complained = self._has_complained, True
        if is_known:
            logger.debug(
                "%s: %d more runs were not written: %s", self._database.name, count, reason
            )
            return
        logger.warning(
            "%s: %d runs were not written: %s; what is lost from now on is counted in `dropped`",
            self._database.name,
            count,
            reason,
        )

    def _note_recovery(self) -> None:
        """Log that nothing waits any more after runs were lost: the next loss is another one."""
        with self._lock:
            has_recovered = self._has_complained and not self._is_gone and self._loss is None
            if has_recovered:
                self._has_complained = False
        if has_recovered:
            logger.warning(
                "%s: traces are written again; %d runs were lost so far",
                self._database.name,
                self.dropped,
            )

    # -- writing

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
            if self._loss is not None and not self._is_gone:
                self._store(_Changes([], []))
            if self._unindexed:
                self._index()
            self._database.close()

    def _write_waiting(self) -> None:
        while True:
            self._gather()
            self._write_batch()
            if self._waiting:
                continue
            with self._file_lock:
                if self._unindexed:
                    self._index()
                    continue
                self._database.release()
            self._note_recovery()
            self._is_writing = False
            # Checked again: an entry put meanwhile found a writer and did not start another.
            if self._is_closed or not self._waiting or not self._become_writer():
                return

    def _gather(self) -> None:
        """Let entries gather for a moment; as soon as the queue is full there is no use in it: starts wait for room."""
        limit = self._options.limit
        pause = GATHERING if limit >= BATCH else SHORTEST_PAUSE
        deadline = time.monotonic() + GATHERING
        while len(self._waiting) < min(BATCH, limit) and time.monotonic() < deadline:
            drive(BLOCKING.sleep(pause))

    def _write_batch(self) -> None:
        with self._file_lock:
            entries: list[Entry] = []
            while self._waiting and len(entries) < BATCH:
                entries.append(self._waiting.popleft())
            if entries:
                self._write(entries)
            if self._unindexed > INDEX_BACKLOG and len(self._waiting) < BATCH:
                self._index()

    def _write(self, entries: list[Entry]) -> None:
        new_records: dict[int, TraceRow] = {}
        """Records of this batch that the file does not have, in the order in which they began."""
        ended: list[TraceRow] = []
        for entry in entries:
            if type(entry[0]) is not Action:
                record = self._runs.begin(entry)
                new_records[id(record)] = record
            elif (ending := self._runs.apply(entry)) is not None and id(ending) not in new_records:
                ended.append(ending)
        # Begun in an earlier batch that could not be written, or to be written again: as a whole.
        complete_records = [
            *new_records.values(),
            *(record for record in ended if not record.is_written),
        ]
        self._store(_Changes(complete_records, [record for record in ended if record.is_written]))

    # -- records as rows

    def _store(self, changes: _Changes) -> None:
        incomplete, loss = sorted(self._runs.incomplete), self._loss
        token = is_in_hook.set(True)
        try:
            rows = self._make_rows(changes)
            self._transact_patiently(rows, incomplete, loss)
        except Exception as error:  # noqa: BLE001  whatever is wrong with the file, the run goes on
            self._is_gone = True
            # A run that still lasts is written as a whole when it ends.
            lost = [
                record
                for record in (*changes.complete_records, *changes.ended)
                if record.end is not None
            ]
            self._runs.incomplete.update(record.trace_id for record in lost)
            if lost:
                self._count_lost(len(lost), repr(error))
            return
        finally:
            is_in_hook.reset(token)
        self._progress, self._is_gone = time.monotonic(), False
        self._runs.forget_marked(incomplete)
        if loss is not None:
            self._forget_loss(loss)
        self._unindexed += len(rows.ends) + sum(
            record.end is not None for record in changes.complete_records
        )
        for record in changes.complete_records:
            record.release()

    def _make_rows(self, changes: _Changes) -> _Rows:
        writer = RowWriter(self._redactor, self._hook, self._options.revision)
        complete_rows: list[Row] = []
        tags: list[tuple[str, str]] = []
        for record in changes.complete_records:
            row = writer.row(record)
            if row is not None:
                complete_rows.append(row)
                if record.tags:
                    tags += writer.tag_rows(record, row)
        ends = [row for record in changes.ended if (row := writer.end_row(record)) is not None]
        return _Rows(complete_rows, ends, tags, list(writer.forms.items()))

    def _forget_loss(self, written: tuple[float, int]) -> None:
        with self._lock:
            runs = (self._loss or written)[1] - written[1]
            self._loss = (time.time(), runs) if runs else None

    def _transact_patiently(
        self, rows: _Rows, incomplete: list[str], loss: tuple[float, int] | None
    ) -> None:
        """Write; a file that others have locked is tried again for `trace_wait` seconds, unless it counts as gone."""
        deadline = time.monotonic() + (0 if self._is_gone else self._options.trace_wait)
        while True:
            try:
                self._transact(rows, incomplete, loss)
            except StoreError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
            else:
                return

    def _transact(self, rows: _Rows, incomplete: list[str], loss: tuple[float, int] | None) -> None:
        def write(connection: Connection) -> None:
            connection.each(UPSERT, rows.complete_rows)
            if rows.ends:
                connection.each(END_RUN, rows.ends)
                connection.each(LATE, [(row[-1],) for row in rows.ends])
            if rows.tags:
                connection.each(ADD_TAG, rows.tags)
            if rows.forms:
                connection.each(ADD_FORM, rows.forms)
            if incomplete:
                connection.each(MARK_INCOMPLETE, [(trace,) for trace in incomplete])
            if loss is not None:
                connection.run(ADD_LOSS, (loss[0], time.time(), loss[1]))

        self._database.write(write)

    def _index(self) -> None:
        """Bring the full-text index up to date; where that fails, a search will do it."""
        self._unindexed = 0
        try:
            index_words(self._database)
        except StoreError as error:
            logger.debug("%s: the index was not brought up to date: %r", self._database.name, error)


class _RoomWait(HookWait):
    """The wait of a run's start for room in the queue, with the entry that did not fit, if there is one."""

    __slots__ = ("_budget", "_entry", "_writer")

    def __init__(self, writer: TraceWriter, budget: list[float], entry: Entry | None) -> None:
        self._writer = writer
        self._budget = budget
        self._entry = entry

    async def wait(self, io: IO) -> None:
        """Wait as long as the trace may."""
        entry, self._entry = self._entry, None
        await self._writer.wait_for_room(io, self._budget, entry)

    def __del__(self) -> None:
        # A handler called by code that does not wait: what did not fit is lost, but not silently.
        if self._entry is not None:
            self._writer.drop(self._entry, "the queue is full, and its caller does not wait")
