"""Workers of a store and writers of its threads: which processes are alive, and which run may write to a thread.

A worker is a process; it has a row that it renews (`beat`). A writer is a run that has claimed a thread. Every claim
raises the thread's `epoch`, and a write with an older epoch is refused: a run that was taken for dead cannot write
after another one took its thread over. Nothing is locked between transactions.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from foldline._storage.database import Connection, Database
from foldline._storage.schema import LockNumber, Schema
from foldline.utils.uuid import uuid7

__all__ = ["SCHEMA", "Worker", "WorkerTimes", "Workers"]

SCHEMA: Final = Schema(
    kind="workers",
    tables=("foldline_workers", "foldline_writers"),
    create="""
    CREATE TABLE foldline_workers (
        id TEXT PRIMARY KEY, boot TEXT NOT NULL, host TEXT NOT NULL, pid {big} NOT NULL, started TEXT NOT NULL,
        beat {real} NOT NULL
    ){strict};
    CREATE TABLE foldline_writers (
        thread TEXT PRIMARY KEY, epoch {big} NOT NULL, owner TEXT, worker TEXT
    ){strict}
    """,
)
BEAT: Final = (
    "INSERT INTO foldline_workers (id, boot, host, pid, started, beat) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET beat = excluded.beat"
)
CLAIM: Final = (
    "INSERT INTO foldline_writers (thread, epoch, owner, worker) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (thread) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner, worker = excluded.worker"
)


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """How often a worker renews its row, and how old the row of a dead one is, in seconds."""

    beat: float = 5.0
    dead_after: float = 30.0


@dataclass(frozen=True, slots=True)
class Worker:
    """A process, by what tells it from a later one with the same number."""

    id: str = field(default_factory=lambda: str(uuid7()))
    boot: str = field(default_factory=lambda: _boot())
    host: str = field(default_factory=platform.node)
    pid: int = field(default_factory=os.getpid)
    started: str = field(default_factory=lambda: _start_of(os.getpid()) or "")

    def is_gone(self) -> bool:
        """Whether it ran on this machine since its start, and runs no more; False where that cannot be known."""
        if not self.boot or not self.started or self.boot != _boot():
            return False
        return _start_of(self.pid) != self.started


class Workers:
    """The workers and writers of one store."""

    def __init__(
        self, database: Database, worker: Worker | None = None, times: WorkerTimes | None = None
    ) -> None:
        """Use a database with the tables of `SCHEMA`."""
        self._database = database
        self.worker = worker or Worker()
        self.times = times or WorkerTimes()

    def beat(self) -> None:
        """Renew the row of this worker."""
        worker = self.worker

        def work(connection: Connection) -> None:
            row = (worker.id, worker.boot, worker.host, worker.pid, worker.started)
            connection.run(BEAT, (*row, _now(connection)))

        self._database.write(work)

    def leave(self) -> None:
        """Remove the row of this worker."""
        statement = "DELETE FROM foldline_workers WHERE id = ?"
        self._database.write(lambda connection: connection.run(statement, (self.worker.id,)))

    def is_alive(self, connection: Connection, worker_id: str) -> bool:
        """Whether a worker's process runs and renews its row."""
        row = connection.row(
            "SELECT id, boot, host, pid, started, beat FROM foldline_workers WHERE id = ?",
            (worker_id,),
        )
        if row is None or _now(connection) - row[5] > self.times.dead_after:
            return False
        return not Worker(*row[:5]).is_gone()

    def claim(self, connection: Connection, thread: str, owner: str) -> int | None:
        """Make a run the writer of a thread; return its epoch, or None while another owner is alive."""
        connection.lock(LockNumber.THREAD, thread)
        row = connection.row(
            "SELECT epoch, owner, worker FROM foldline_writers WHERE thread = ?", (thread,)
        )
        epoch, other, worker = row or (0, None, None)
        if other not in (None, owner) and self.is_alive(connection, worker):
            return None
        connection.run(CLAIM, (thread, epoch + 1, owner, self.worker.id))
        return int(epoch) + 1

    def may_write(self, connection: Connection, thread: str, epoch: int) -> bool:
        """Whether no other run has claimed the thread since; ask in the transaction that writes."""
        connection.lock(LockNumber.THREAD, thread)
        row = connection.row("SELECT epoch FROM foldline_writers WHERE thread = ?", (thread,))
        return row is not None and row[0] == epoch

    def release(self, connection: Connection, thread: str, epoch: int) -> bool:
        """Give a thread back; return False where another run has claimed it."""
        statement = (
            "UPDATE foldline_writers SET owner = NULL, worker = NULL WHERE thread = ? AND epoch = ?"
        )
        return connection.run(statement, (thread, epoch)) == 1


def _now(connection: Connection) -> float:
    """Return the time of the database, which all its workers share; a file's workers share a machine."""
    if connection.dialect == "sqlite":
        return time.time()
    row = connection.row("SELECT extract(epoch FROM clock_timestamp())")
    return float(row[0]) if row else 0.0


def _boot() -> str:
    """Return the id of this start of the machine with that of the process namespace; "" where it has none."""
    if sys.platform != "linux":
        return ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_of(pid: int) -> str | None:
    """Return when a process started, in ticks since the boot; None if there is none."""
    if sys.platform != "linux":
        return None
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]
