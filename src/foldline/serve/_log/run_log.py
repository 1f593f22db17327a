"""`ServerLog`: runs, events and threads in tables. Blocking: the server calls it in worker threads.

Events are only added, and the number of an event is its position in its run. A run belongs to the worker that runs it;
where that worker is dead, the next reader marks the run as interrupted.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

from foldline._storage.database import Connection, Database, Row
from foldline._storage.open_database import open_database
from foldline._storage.schema import LockNumber
from foldline._storage.workers import Workers, this_worker
from foldline.serve._json_object import JsonObject
from foldline.serve._log.answers import (
    Claim,
    Refusal,
    StoredAnswer,
    answers_of,
    claim_answers,
    release_answers,
)
from foldline.serve._log.events import Events, split_events
from foldline.serve._log.holds import settle_worker
from foldline.serve._log.pruning import delete_rows, prune
from foldline.serve._log.records import EventsToKeep, RunRecord, ThreadInfo
from foldline.serve._log.requests import Repeat, claim_request
from foldline.serve._log.schema import SCHEMA
from foldline.serve._log.writing import (
    COLUMNS,
    UNDER_WAY,
    dump,
    interrupt_runs,
    write_batches,
)

__all__ = ["ServerLog", "worker_name"]

DEAD_AFTER: Final = 10.0
"""Seconds without a heartbeat after which a worker of another machine counts as dead."""
REQUEST: Final = COLUMNS.split(", ").index("request")
RESULT: Final = COLUMNS.split(", ").index("result")
RUNS: Final = f"SELECT {COLUMNS}, resumes, root FROM serve_runs LEFT JOIN serve_chains ON run = id"
IN_THREAD: Final = "WHERE owner = ? AND thread = ?"
IS_THREAD: Final = "WHERE owner = ? AND id = ?"
REQUEST_STOP: Final = "UPDATE serve_runs SET stop_asked = 1 WHERE id = ?"
LEAVE: Final = "DELETE FROM serve_workers WHERE id = ?"
EVENTS: Final = (
    "SELECT seq, last, data FROM serve_events WHERE run = ? AND last > ? ORDER BY seq LIMIT ?"
)
RUNS_OF: Final = f"SELECT id FROM serve_runs WHERE worker = ? AND {UNDER_WAY}"
WORKERS_OF_RUNS: Final = (
    f"SELECT worker FROM serve_runs WHERE {UNDER_WAY} UNION SELECT worker FROM serve_holds"
)
NOTE_RUNNING: Final = "UPDATE serve_runs SET status = 'running' WHERE id = ? AND status = 'queued'"
CAN_GO_ON: Final = """
status = 'interrupted' AND finished > ? AND thread IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM serve_chains AS later WHERE later.resumes = serve_runs.id)
AND (
    SELECT count(*) FROM serve_runs AS other LEFT JOIN serve_chains AS link ON link.run = other.id
    WHERE other.status = 'interrupted' AND coalesce(link.root, other.id) = coalesce(serve_chains.root, serve_runs.id)
) <= ?
ORDER BY finished, id LIMIT 100
"""
NEVER: Final = -1.0
"""A time before all runs."""
BEAT: Final = "INSERT INTO serve_workers (id, beat) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET beat = excluded.beat"
HAS_BEAT: Final = "SELECT 1 FROM serve_workers WHERE id = ?"
HAS_ROW: Final = "SELECT 1 FROM foldline_workers WHERE id = ?"


def worker_name() -> str:
    """Return a name for this log of this process, with the id of its row among the workers.

    The first parts are those that older versions read, which may work on the same log.
    """
    return f"{socket.gethostname()}/{os.getpid()}/{uuid4().hex[:8]}/{this_worker().id}"


def _load(text: str | None) -> JsonObject | None:
    return None if text is None else json.loads(text)


class ServerLog:
    """Runs, their events, and threads."""

    def __init__(self, place: str | Database) -> None:
        """Open the log: a path, `:memory:`, or the URL of a PostgreSQL database."""
        self.database: Database = open_database(place, SCHEMA) if isinstance(place, str) else place
        self.worker: str = worker_name()
        self._workers = Workers()

    def close(self) -> None:
        """Close the connections."""
        self.database.close()

    # -- runs and events

    def keep(self, batches: Sequence[EventsToKeep]) -> set[str]:
        """Write events, new runs and ends of runs, all in one transaction; return the runs that are gone."""
        return self.database.write(lambda connection: write_batches(connection, batches))

    def begin(self, run: RunRecord, claims: list[Claim]) -> Refusal | Repeat | None:
        """Write a run before its events: it continues another, waits in line, or its request may be repeated.

        Return why not, and write nothing then.
        """

        def work(connection: Connection) -> Refusal | Repeat | None:
            refusal: Refusal | Repeat | None = None
            if run.resumes is not None:
                refusal = claim_answers(connection, run, claims)
            if refusal is None:
                refusal = claim_request(connection, run)
                if refusal is not None:
                    release_answers(connection, run.id)
            if refusal is None:
                write_batches(connection, [EventsToKeep(run, 1, [], is_new=True)])
            return refusal

        return self.database.write(work)

    def note_running(self, id: str) -> None:
        """Record that the turn of a run has come."""
        self.database.write(lambda connection: connection.run(NOTE_RUNNING, (id,)))

    def answers(self, id: str) -> list[StoredAnswer]:
        """Return the answers that started a run."""
        return self.database.read(lambda connection: answers_of(connection, id))

    def run(self, id: str) -> RunRecord | None:
        """Return a run; where its worker is dead, mark it as interrupted first."""
        rows = self.database.rows(f"{RUNS} WHERE id = ?", (id,))
        if not rows:
            return None
        info = _run_of(rows[0])
        if not info.is_over and not self._is_alive(info.worker):
            self._interrupt(info)
        return info

    def events(self, id: str, after: int, limit: int = 512) -> Events:
        """Return the numbered events after a number, those of up to `limit` rows."""
        events: Events = []
        for seq, last, data in self.database.rows(EVENTS, (id, after, limit)):
            numbered = enumerate(split_events(data, last - seq + 1), seq)
            events += [item for item in numbered if item[0] > after]
        return events

    def runs(
        self,
        owner: str,
        *,
        thread: str | None = None,
        status: str | None = None,
        limit: int = 20,
        offset: int = 0,
    ) -> list[RunRecord]:
        """Return an owner's runs, the newest first."""
        statement = f"{RUNS} WHERE owner = ?"
        values: list[Any] = [owner]
        if thread is not None:
            statement += " AND thread = ?"
            values.append(thread)
        if status is not None:
            statement += " AND status = ?"
            values.append(status)
        statement += " ORDER BY created DESC, id DESC LIMIT ? OFFSET ?"
        rows = self.database.rows(statement, (*values, limit, offset))
        return [_run_of(row) for row in rows]

    def interrupted_runs(self, since: float, most_times: int) -> list[RunRecord]:
        """Return runs of threads that were interrupted since a time, and that nobody has continued, the oldest first.

        A chain in which more runs than `most_times` were interrupted is left out.
        """
        rows = self.database.rows(f"{RUNS} WHERE {CAN_GO_ON}", (since, most_times))
        return [_run_of(row) for row in rows]

    def delete_run(self, id: str) -> None:
        """Delete a run and its events."""

        def work(connection: Connection) -> None:
            delete_rows(
                connection,
                connection.rows("DELETE FROM serve_runs WHERE id = ? RETURNING id", (id,)),
            )

        self.database.write(work)

    def prune(self, older_than: float, waiting_older_than: float = NEVER) -> int:
        """Delete chains of runs that ended before a time, and that wait since before another; return how many."""
        count = 0
        while found := self.prune_some(older_than, waiting_older_than):
            count += found
        return count

    def prune_some(self, older_than: float, waiting_older_than: float = NEVER) -> int:
        """Delete some of them in one transaction; return how many."""
        return self.database.write(
            lambda connection: prune(connection, older_than, waiting_older_than)
        )

    # -- workers

    def beat(self) -> set[str]:
        """Write this worker's heartbeat; return its runs with a stop request."""

        def work(connection: Connection) -> None:
            connection.run(BEAT, (self.worker, time.time()))  # older versions read this time
            self._workers.renew(connection)

        self.database.write(work)
        return self.runs_to_stop()

    def runs_to_stop(self) -> set[str]:
        """Return the runs of this worker with a stop request."""
        rows = self.database.rows(
            f"SELECT id FROM serve_runs WHERE {UNDER_WAY} AND worker = ? AND stop_asked = 1",
            (self.worker,),
        )
        return {str(row[0]) for row in rows}

    def request_stop(self, id: str) -> None:
        """Ask the worker of a run to end it."""
        self.database.write(lambda connection: connection.run(REQUEST_STOP, (id,)))

    def mark_interrupted(self) -> int:
        """Mark the runs of dead workers as interrupted, and settle what they held; return how many runs."""
        rows = self.database.rows(WORKERS_OF_RUNS)
        dead_workers = [str(row[0]) for row in rows if not self._is_alive(str(row[0]))]

        def work(connection: Connection) -> int:
            ids = [
                str(row[0])
                for worker in dead_workers
                for row in connection.rows(RUNS_OF, (worker,))
            ]
            ends = interrupt_runs(connection, ids)
            for worker in dead_workers:
                settle_worker(connection, worker, int(time.time()))
            return len(ends)

        self.database.write(self._workers.sweep)
        return self.database.write(work) if dead_workers else 0

    def leave(self) -> None:
        """Remove this worker's heartbeat, and settle what it still holds."""

        def work(connection: Connection) -> None:
            connection.run(LEAVE, (self.worker,))
            settle_worker(connection, self.worker, int(time.time()))

        self.database.write(work)

    def _interrupt(self, info: RunRecord) -> None:
        def work(connection: Connection) -> dict[str, tuple[float, int]]:
            settle_worker(connection, info.worker, int(time.time()))
            return interrupt_runs(connection, [info.id])

        ends = self.database.write(work)
        if info.id in ends:
            info.status = "interrupted"
            info.finished, info.last_seq = ends[info.id]

    def _is_alive(self, worker: str) -> bool:
        if worker == self.worker:
            return True
        if worker.count("/") == 3 and (is_alive := self._judge(worker)) is not None:
            return is_alive
        # Of an older version, or its row was just removed by another store: judged by the clock of this machine.
        host, _, process = worker.partition("/")
        pid = process.partition("/")[0]
        if host == socket.gethostname() and pid.isdigit():
            if int(pid) == os.getpid():
                return False  # an earlier process had this pid
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                return False
            except PermissionError:
                pass
        rows = self.database.rows("SELECT beat FROM serve_workers WHERE id = ?", (worker,))
        return bool(rows) and float(rows[0][0]) > time.time() - DEAD_AFTER

    def _judge(self, worker: str) -> bool | None:
        """Return whether a worker is alive by its row; one that must be watched first counts as alive."""
        id = worker.rpartition("/")[2]

        def work(connection: Connection) -> bool | None:
            if connection.row(HAS_BEAT, (worker,)) is None:
                return False  # it has left
            if connection.row(HAS_ROW, (id,)) is None:
                return None
            return self._workers.judge(connection, id).is_alive is not False

        return self.database.read(work)

    # -- threads

    def put_thread(self, thread: ThreadInfo, *, must_be_new: bool = False) -> ThreadInfo:
        """Store a thread; return the existing one where there is one, or raise `KeyError`."""

        def work(connection: Connection) -> ThreadInfo:
            connection.lock(LockNumber.SERVER, f"thread/{thread.owner}/{thread.id}")
            existing = _thread(connection.rows(THREAD, (thread.owner, thread.id)))
            if existing is not None:
                if must_be_new:
                    raise KeyError(thread.id)
                return existing
            values = (thread.owner, thread.id, thread.app, thread.created, dump(thread.metadata))
            connection.run(ADD_THREAD, values)
            return thread

        return self.database.write(work)

    def thread(self, owner: str, id: str) -> ThreadInfo | None:
        """Return a thread of an owner."""
        return _thread(self.database.rows(THREAD, (owner, id)))

    def threads(self, owner: str, *, limit: int = 20, offset: int = 0) -> list[ThreadInfo]:
        """Return an owner's threads, the newest first."""
        rows = self.database.rows(THREADS, (owner, limit, offset))
        return [_thread_of(row) for row in rows]

    def change_thread(
        self, owner: str, id: str, *, app: str | None, metadata: object = None
    ) -> None:
        """Set the app or the metadata of a thread."""

        def work(connection: Connection) -> None:
            if app is not None:
                connection.run(f"UPDATE serve_threads SET app = ? {IS_THREAD}", (app, owner, id))
            if metadata is not None:
                values = (dump(metadata), owner, id)
                connection.run(f"UPDATE serve_threads SET metadata = ? {IS_THREAD}", values)

        self.database.write(work)

    def delete_thread(self, owner: str, id: str) -> None:
        """Delete a thread and its runs."""

        def work(connection: Connection) -> None:
            runs = connection.rows(f"DELETE FROM serve_runs {IN_THREAD} RETURNING id", (owner, id))
            delete_rows(connection, runs)
            connection.run(f"DELETE FROM serve_threads {IS_THREAD}", (owner, id))

        self.database.write(work)


THREAD: Final = (
    "SELECT owner, id, app, created, metadata FROM serve_threads WHERE owner = ? AND id = ?"
)
THREADS: Final = (
    "SELECT owner, id, app, created, metadata FROM serve_threads WHERE owner = ? "
    "ORDER BY created DESC, id DESC LIMIT ? OFFSET ?"
)
ADD_THREAD: Final = (
    "INSERT INTO serve_threads (owner, id, app, created, metadata) VALUES (?, ?, ?, ?, ?)"
)


def _run_of(row: Row) -> RunRecord:
    info = RunRecord(*row)
    info.request, info.result = _load(row[REQUEST]), _load(row[RESULT])
    info.stop_asked = bool(info.stop_asked)
    return info


def _thread_of(row: Row) -> ThreadInfo:
    owner, id, app, created, metadata = row
    return ThreadInfo(id, owner, app, created, _load(metadata) or {})


def _thread(rows: list[Row]) -> ThreadInfo | None:
    return _thread_of(rows[0]) if rows else None
