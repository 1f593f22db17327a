"""`JobDatabase`: the tables of jobs in a SQLite file or a PostgreSQL database, and the lock of a job.

One process at a time works on a job. Its lock ends with the process, even a killed one: a locked file next to a SQLite
file, or a lock of the session in PostgreSQL.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeVar

from foldline._io.locks import mutex
from foldline._storage.database import Connection
from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresConnection, PostgresServer
from foldline._storage.schema import LockNumber, Schema
from foldline._storage.sqlite import MEMORY
from foldline.exceptions import StoreError
from foldline.utils._data_places import is_url

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["Connection", "JobDatabase"]

T = TypeVar("T")

SCHEMA: Final = Schema(
    kind="jobs",
    tables=(
        "foldline_jobs",
        "foldline_job_items",
        "foldline_job_rejects",
        "foldline_job_parts",
    ),
    create="""
    CREATE TABLE foldline_jobs (
        id {number},
        name TEXT NOT NULL UNIQUE,
        tag TEXT NOT NULL,
        target TEXT NOT NULL,
        description TEXT NOT NULL,
        definition TEXT,
        rows_read {big} NOT NULL DEFAULT 0,
        is_read INTEGER NOT NULL DEFAULT 0,
        is_cancelled INTEGER NOT NULL DEFAULT 0,
        items {big} NOT NULL DEFAULT 0,
        done {big} NOT NULL DEFAULT 0,
        failed {big} NOT NULL DEFAULT 0,
        cancelled {big} NOT NULL DEFAULT 0,
        copies {big} NOT NULL DEFAULT 0,
        rejected {big} NOT NULL DEFAULT 0,
        repeated_calls {big} NOT NULL DEFAULT 0,
        missing {big} NOT NULL DEFAULT 0,
        parts {big} NOT NULL DEFAULT 0,
        input_tokens {big} NOT NULL DEFAULT 0,
        output_tokens {big} NOT NULL DEFAULT 0,
        known_cost {real} NOT NULL DEFAULT 0,
        unpriced {big} NOT NULL DEFAULT 0
    );
    CREATE TABLE foldline_job_items (
        id {row_number},
        job {big} NOT NULL,
        state INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        same_as {big},
        part {big},
        source TEXT,
        input_tokens {big} NOT NULL DEFAULT 0,
        output_tokens {big} NOT NULL DEFAULT 0,
        cost {real},
        key TEXT,
        digest TEXT NOT NULL,
        error TEXT,
        prompt TEXT,
        input TEXT NOT NULL,
        output TEXT
    );
    CREATE UNIQUE INDEX foldline_job_keys ON foldline_job_items (job, key) WHERE key IS NOT NULL;
    CREATE INDEX foldline_job_digests ON foldline_job_items (job, digest) WHERE same_as IS NULL;
    CREATE INDEX foldline_job_open ON foldline_job_items (job, state, id) WHERE state < 3;
    CREATE INDEX foldline_job_failed ON foldline_job_items (job, id) WHERE state = 4;
    CREATE INDEX foldline_job_copies ON foldline_job_items (job, id) WHERE state = 5;
    CREATE TABLE foldline_job_rejects (
        id {number}, job {big} NOT NULL, number {big} NOT NULL, place TEXT NOT NULL, reason TEXT NOT NULL,
        line TEXT NOT NULL
    );
    CREATE TABLE foldline_job_parts (
        id {number}, job {big} NOT NULL, tag TEXT NOT NULL UNIQUE, provider_id TEXT, size {big} NOT NULL,
        made_at {real} NOT NULL, is_ended INTEGER NOT NULL DEFAULT 0, outcome TEXT
    )
    """,
)
CACHE_KIB: Final = 16 * 1024
"""The memory of a job's store, whatever the size of the job."""


class JobDatabase:
    """A database that holds jobs."""

    def __init__(self, location: str | Path) -> None:
        """Open the database at a path, or that of a `postgresql://…` address."""
        self._server = PostgresServer(str(location)) if is_url(location) else None
        self._database = open_database(self._server or location, SCHEMA, cache_kib=CACHE_KIB)
        self.where: str = self._database.where
        """How errors name it."""
        self._writing = mutex()
        self._lock_file: int | None = None
        self._session: PostgresConnection | None = None

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do work in one transaction, once: counting twice would be wrong."""
        if self._server is not None:
            self._check_session()
            return self._database.write(work, may_repeat=False)
        with (
            self._writing
        ):  # threads of one process wait for each other here, not for SQLite's lock
            return self._database.write(work, may_repeat=False)

    def _check_session(self) -> None:
        """Raise where the lock of the job has ended with its session, such as by a restart of the server.

        Another process may have the job by now: going on would send its items twice.
        """
        if (session := self._session) is None:
            return
        try:
            session.execute("SELECT 1")
        except Exception as error:
            raise StoreError(
                f"{self.where}: this process has lost its lock of the job, for its session was ended (a restart of the "
                "server?). Nothing of this operation was written: run the job again, which goes on where it was"
            ) from error

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read something."""
        return self._database.read(work)

    def lock(self, name: str) -> bool:
        """Lock a job for this process; False where another one has it."""
        if self._server is not None:
            return self._lock_session(self._server, name)
        return self._lock_path(name)

    def _lock_session(self, server: PostgresServer, name: str) -> bool:
        """Take an advisory lock on a connection of its own."""
        if self._session is not None:
            return True
        session = server.connect()
        row = session.execute(
            "SELECT pg_try_advisory_lock(hashtextextended(%s, %s))", (name, int(LockNumber.JOB))
        ).fetchone()
        if not row[0]:
            session.close()
            return False
        self._session = session
        return True

    def _lock_path(self, name: str) -> bool:
        """Lock a file next to the database; each job has its own."""
        if self.where == MEMORY or self._lock_file is not None:
            return True
        path = f"{os.path.abspath(self.where)}-{blake2b(name.encode(), digest_size=4).hexdigest()}-lock"
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
        """Release the lock. A locked file stays: a removed file could be locked by two processes."""
        if (session := self._session) is not None:
            self._session = None
            with suppress(Exception):  # a broken session has lost its locks
                # Closing alone would free the job only when the server notices it, after this returns.
                session.execute("SELECT pg_advisory_unlock_all()")
            session.close()
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def close(self) -> None:
        """Close the idle connections."""
        self._database.close()
