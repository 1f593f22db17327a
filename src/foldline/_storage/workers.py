"""Workers of a store: the processes that own threads in it, and which of them are alive.

A process has one row per store and renews it (`beat`). A worker is dead when its process is gone, which others on the
same machine see at once, or when it has not renewed its row for `dead_after` seconds.

Clocks jump, and the times in rows are only as good as the clock that made them: that of the database in PostgreSQL, and
in a file the clock of the machine that nobody can set. So a recent time in a row proves a life, but an old one proves
no death, nor does one in the future: whoever finds such a row watches for two beats, by a clock of its own, whether
it changes.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

from foldline._storage.database import Connection
from foldline._storage.schema import Schema
from foldline.exceptions import UsageError
from foldline.utils.uuid import uuid7

__all__ = [
    "SCHEMA",
    "Judgement",
    "Worker",
    "WorkerTimes",
    "Workers",
    "answer_wait",
    "inbox_wait",
    "this_worker",
    "uptime",
]

SCHEMA: Final = Schema(
    kind="workers",
    tables=("foldline_workers", "foldline_writers"),
    create="""
    CREATE TABLE foldline_workers (
        id TEXT PRIMARY KEY, boot TEXT NOT NULL, host TEXT NOT NULL, pid {big} NOT NULL, started TEXT NOT NULL,
        beat {real} NOT NULL, beat_every {real} NOT NULL, dead_after {real} NOT NULL
    ){strict};
    CREATE TABLE foldline_writers (
        thread TEXT PRIMARY KEY, epoch {big} NOT NULL, owner TEXT, worker TEXT
    ){strict};
    CREATE INDEX foldline_writers_by_worker ON foldline_writers (worker)
    """,
)
"""A worker's row has its own times, so that processes with different settings judge it alike."""
COLUMNS: Final = "id, boot, host, pid, started, beat, beat_every, dead_after"
BEAT: Final = (
    f"INSERT INTO foldline_workers ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
    "SET beat = excluded.beat, beat_every = excluded.beat_every, dead_after = excluded.dead_after"
)
WITHOUT_THREADS: Final = (
    f"SELECT {COLUMNS} FROM foldline_workers WHERE NOT EXISTS "
    "(SELECT 1 FROM foldline_writers WHERE worker = foldline_workers.id)"
)
LEAVE: Final = (
    "DELETE FROM foldline_workers WHERE id = ? AND NOT EXISTS "
    "(SELECT 1 FROM foldline_writers WHERE worker = foldline_workers.id)"
)
BEATS_WATCHED: Final = 2
"""For how many of its beats a worker with an old row is watched."""
DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """How often a worker renews its row, and how old the row of a dead one is, in seconds."""

    beat: float = 5.0
    dead_after: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.beat <= self.dead_after / 3 < float("inf"):
            raise UsageError(
                f"a beat every {self.beat:g} s and death after {self.dead_after:g} s do not fit: the first must be "
                "above 0, and the second at least three times the first (FOLDLINE_WORKER_BEAT, FOLDLINE_WORKER_DEAD)"
            )

    @property
    def stop_after(self) -> float:
        """Seconds without a renewal after which a worker's own runs stop: before others may take it for dead."""
        return self.dead_after * 2 / 3

    @classmethod
    def from_environment(cls) -> Self:
        """Return the times that the environment sets."""
        return cls(
            _seconds("FOLDLINE_WORKER_BEAT", cls().beat),
            _seconds("FOLDLINE_WORKER_DEAD", cls().dead_after),
        )


def answer_wait() -> float:
    """Return the seconds for which an answer waits for a living owner of its thread that has written nothing yet."""
    return _seconds("FOLDLINE_ANSWER_WAIT", 30.0)


def inbox_wait() -> float:
    """Return the seconds between two looks of a run for messages to its thread, where steps take less."""
    return _seconds("FOLDLINE_INBOX_WAIT", 0.25)


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(f"{name}={text!r:.80} is no number of seconds") from error


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
        started = _start_of(self.pid)
        if started is None:
            return not _exists(self.pid)
        return started != self.started


_WORKERS: Final[dict[int, Worker]] = {}


def this_worker() -> Worker:
    """Return the worker that is this process; a forked child is another one."""
    pid = os.getpid()
    if pid not in _WORKERS:
        _WORKERS.clear()
        _WORKERS.setdefault(pid, Worker())
    return _WORKERS[pid]


class Judgement(NamedTuple):
    """What is known of a worker."""

    is_alive: bool | None
    """None: it must be watched first."""
    text: str
    """Which process it is, for errors."""
    wait: float = 0.0
    """Seconds after which to ask again."""


class Workers:
    """The row of this process in one store, and its view of the others."""

    def __init__(self, times: WorkerTimes | None = None) -> None:
        self.times = times or WorkerTimes.from_environment()
        self._watched: dict[str, tuple[float, float]] = {}
        """The beats of workers with an old row, and since when each is known."""

    def renew(self, connection: Connection) -> None:
        """Renew the row of this worker."""
        worker, times = this_worker(), self.times
        row = (worker.id, worker.boot, worker.host, worker.pid, worker.started)
        connection.run(BEAT, (*row, _now(connection), times.beat, times.dead_after))

    def leave(self, connection: Connection) -> None:
        """Remove the row of this worker, unless it owns threads through another object."""
        connection.run(LEAVE, (this_worker().id,))

    def judge(self, connection: Connection, worker_id: str) -> Judgement:
        """Say whether a worker's process runs and renews its row."""
        query = f"SELECT {COLUMNS} FROM foldline_workers WHERE id = ?"
        row = connection.row(query, (worker_id,))
        if row is None:
            return Judgement(is_alive=False, text="a process that has left")
        worker, (beat, beat_every, dead_after) = Worker(*row[:5]), row[5:]
        text = f"process {worker.pid} on {worker.host!r}"
        if worker.is_gone():
            return Judgement(is_alive=False, text=text)
        now, watched = time.monotonic(), self._watched.pop(worker_id, None)
        is_recent = -beat_every <= _now(connection) - beat <= dead_after
        if is_recent or (watched is not None and watched[0] != beat):
            return Judgement(is_alive=True, text=text)
        watched = self._watched[worker_id] = watched or (beat, now)
        left = watched[1] + BEATS_WATCHED * beat_every - now
        if left > 0:
            return Judgement(is_alive=None, text=text, wait=min(left, beat_every / 2))
        return Judgement(is_alive=False, text=text)

    def sweep(self, connection: Connection) -> int:
        """Remove the rows of processes that are gone and own no thread; return how many.

        Where a process of another machine only seems to be gone, nothing is lost: its next beat writes the row again.
        """
        now, count = _now(connection), 0
        for row in connection.rows(WITHOUT_THREADS):
            if Worker(*row[:5]).is_gone() or abs(now - row[5]) > DAY:
                count += connection.run(f"{LEAVE} AND beat = ?", (row[0], row[5]))
        return count


def uptime() -> float:
    """Return a time that nobody sets and that goes on while the machine sleeps, where there is one."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def _now(connection: Connection) -> float:
    """Return the time of the database, which all its workers share; a file's workers share a machine."""
    if connection.dialect == "sqlite":
        return time.monotonic()
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
    """Return when a process started, in ticks since the boot; "" if it has ended, None where that cannot be read."""
    if sys.platform != "linux":
        return None
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]


def _exists(pid: int) -> bool:
    """Return whether there is a process; /proc may hide those of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
