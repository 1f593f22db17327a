"""The tables of jobs in SQLite or PostgreSQL, behind one `JobDatabase`.

One process at a time works on a job. Its lock ends with the process, even a killed one: a locked file next to a SQLite
file, or a lock of the session in PostgreSQL.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from foldline._io.locks import mutex
from foldline._storage.postgres import PostgresConnection, PostgresServer
from foldline._storage.sqlite import MEMORY, Database
from foldline.exceptions import StoreError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["Connection", "JobDatabase", "open_database"]

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

COLUMNS: Final = """
    id {key},
    job BIGINT NOT NULL,
    state INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    same_as BIGINT,
    part BIGINT,
    source TEXT,
    input_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    cost DOUBLE PRECISION,
    key TEXT,
    digest TEXT NOT NULL,
    error TEXT,
    prompt TEXT,
    input TEXT NOT NULL,
    output TEXT
"""
TABLES: Final = """
CREATE TABLE {maybe} foldline_jobs (
    id {number},
    name TEXT NOT NULL UNIQUE,
    tag TEXT NOT NULL,
    target TEXT NOT NULL,
    description TEXT NOT NULL,
    definition TEXT,
    rows_read BIGINT NOT NULL DEFAULT 0,
    is_read INTEGER NOT NULL DEFAULT 0,
    is_cancelled INTEGER NOT NULL DEFAULT 0,
    items BIGINT NOT NULL DEFAULT 0,
    done BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    cancelled BIGINT NOT NULL DEFAULT 0,
    copies BIGINT NOT NULL DEFAULT 0,
    rejected BIGINT NOT NULL DEFAULT 0,
    repeated_calls BIGINT NOT NULL DEFAULT 0,
    missing BIGINT NOT NULL DEFAULT 0,
    parts BIGINT NOT NULL DEFAULT 0,
    input_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    known_cost DOUBLE PRECISION NOT NULL DEFAULT 0,
    unpriced BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE {maybe} foldline_job_items ({columns});
CREATE UNIQUE INDEX {maybe} foldline_job_keys ON foldline_job_items (job, key) WHERE key IS NOT NULL;
CREATE INDEX {maybe} foldline_job_digests ON foldline_job_items (job, digest) WHERE same_as IS NULL;
CREATE INDEX {maybe} foldline_job_open ON foldline_job_items (job, state, id) WHERE state < 3;
CREATE INDEX {maybe} foldline_job_failed ON foldline_job_items (job, id) WHERE state = 4;
CREATE INDEX {maybe} foldline_job_copies ON foldline_job_items (job, id) WHERE state = 5;
CREATE TABLE {maybe} foldline_job_rejects (
    id {number}, job BIGINT NOT NULL, number BIGINT NOT NULL, place TEXT NOT NULL, reason TEXT NOT NULL,
    line TEXT NOT NULL
);
CREATE TABLE {maybe} foldline_job_parts (
    id {number}, job BIGINT NOT NULL, tag TEXT NOT NULL UNIQUE, provider_id TEXT, size BIGINT NOT NULL,
    made_at DOUBLE PRECISION NOT NULL, is_ended INTEGER NOT NULL DEFAULT 0, outcome TEXT
)
"""
SQLITE: Final = TABLES.format(
    maybe="",
    number="INTEGER PRIMARY KEY AUTOINCREMENT",
    columns=COLUMNS.format(key="INTEGER PRIMARY KEY"),
)
POSTGRES: Final = "SELECT pg_advisory_xact_lock(7364530);" + TABLES.format(
    maybe="IF NOT EXISTS",
    number="BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    columns=COLUMNS.format(key="BIGINT PRIMARY KEY"),
)
CACHE: Final = "PRAGMA cache_size = -16384"
"""16 MB: the memory of a job's store, whatever the size of the job."""


class Connection(Protocol):
    """Runs statements in a transaction; values are bound to each `?`."""

    def rows(self, text: str, values: Sequence[Any] = ()) -> Rows:
        """Run a statement and return all its rows."""

    def run(self, text: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; return how many rows it changed."""

    def each(self, text: str, values: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of some values."""


class JobDatabase(Protocol):
    """A database that holds jobs."""

    where: str
    """How errors name it."""

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do work in one transaction: all of it or nothing."""

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read something."""

    def lock(self, name: str) -> bool:
        """Lock a job for this process; False where another one has it."""

    def unlock(self) -> None:
        """Release the lock."""

    def close(self) -> None:
        """Close the idle connections."""


def open_database(location: str | Path) -> JobDatabase:
    """Open the database at a path, or that of a `postgresql://…` address."""
    text = str(location)
    return (
        PostgresDatabase(text)
        if text.startswith(("postgresql://", "postgres://"))
        else SqliteDatabase(text)
    )


class _SqliteConnection:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, text: str, values: Sequence[Any] = ()) -> Rows:
        rows: Rows = self._connection.execute(text, values).fetchall()
        return rows

    def run(self, text: str, values: Sequence[Any] = ()) -> int:
        return int(self._connection.execute(text, values).rowcount)

    def each(self, text: str, values: Sequence[Sequence[Any]]) -> None:
        if values:
            self._connection.executemany(text, values)


class SqliteDatabase:
    """Jobs in a SQLite file."""

    def __init__(self, path: str) -> None:
        self.where = path
        self._database = Database(path, "jobs", (SQLITE,))
        self._lock_file: int | None = None
        self._writing = mutex()

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do work in one transaction."""
        with self._writing, self._database.write() as connection:
            connection.execute(CACHE)
            return work(_SqliteConnection(connection))

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read something."""
        with self._database.read() as connection:
            connection.execute(CACHE)
            return work(_SqliteConnection(connection))

    def lock(self, name: str) -> bool:
        """Lock a file next to the database; each job has its own."""
        if self.where == MEMORY or self._lock_file is not None:
            return True
        path = f"{self.where}-{blake2b(name.encode(), digest_size=4).hexdigest()}-lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(
                f"{path}: {error.strerror}: check that the folder may be written"
            ) from error
        try:
            if sys.platform == "win32":
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._lock_file = handle
        return True

    def unlock(self) -> None:
        """Release the lock. The file stays: a removed file could be locked by two processes."""
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def close(self) -> None:
        """Close the idle connections."""
        self._database.close()


class _PostgresConnection:
    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    def rows(self, text: str, values: Sequence[Any] = ()) -> Rows:
        rows: Rows = self._connection.execute(text.replace("?", "%s"), values).fetchall()
        return rows

    def run(self, text: str, values: Sequence[Any] = ()) -> int:
        return int(self._connection.execute(text.replace("?", "%s"), values).rowcount)

    def each(self, text: str, values: Sequence[Sequence[Any]]) -> None:
        if values:
            with self._connection.cursor() as cursor:
                cursor.executemany(text.replace("?", "%s"), values)


class PostgresDatabase:
    """Jobs in PostgreSQL (extra `postgres`)."""

    def __init__(self, conninfo: str) -> None:
        self.where = "PostgreSQL"
        self._conninfo = conninfo
        self._server = PostgresServer(conninfo, POSTGRES)
        self._session: PostgresConnection | None = None

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do work in one transaction, once: counting twice would be wrong."""
        return self._server.run(
            lambda connection: work(_PostgresConnection(connection)), may_repeat=False
        )

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read something."""
        return self._server.run(lambda connection: work(_PostgresConnection(connection)))

    def lock(self, name: str) -> bool:
        """Take an advisory lock on a connection of its own."""
        if self._session is not None:
            return True
        session = self._server.connect()
        row = session.execute(
            "SELECT pg_try_advisory_lock(hashtextextended(%s, 7364530))", (name,)
        ).fetchone()
        if not row[0]:
            session.close()
            return False
        self._session = session
        return True

    def unlock(self) -> None:
        """End the session that has the lock."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def close(self) -> None:
        """Close the idle connections."""
        self._server.close()
