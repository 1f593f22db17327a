"""`Database`: one SQLite file, opened safely. All stores in SQLite use it.

WAL, so that readers and one writer do not wait for each other; `synchronous=FULL`, so that what was acknowledged is on
the disk; a bounded wait for other writers. Several kinds of store may share a file, and a program may keep tables of
its own in it: the schema of each kind has its version in `foldline_schema`, and `user_version` is not ours. Files are
created for their owner alone. Statements are constants of this package, values are always bound. Connections belong to
a process, one thread at a time; a forked child opens its own.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foldline._io.locks import mutex
from foldline.exceptions import StoreError

__all__ = ["Database", "create_privately", "schema_version", "set_schema_version"]

PATIENCE = 10.0
"""Seconds to wait for another writer before giving up."""
MEMORY = ":memory:"


class Database:
    """A SQLite file with a schema: `migrations[n]` brings version n to n + 1."""

    def __init__(
        self,
        path: str | Path,
        kind: str,
        migrations: Sequence[str],
        *,
        patience: float = PATIENCE,
        is_durable: bool = True,
    ) -> None:
        """Open a file for one kind of store; the tables of other kinds are not touched.

        With `is_durable=False` writes do not wait for the disk: a loss of power may undo the last ones.
        """
        self.path = str(path)
        self._kind = kind
        self._migrations = migrations
        self._patience = patience
        self._synchronous = "FULL" if is_durable else "NORMAL"
        self._lock = mutex()
        self._in_use = mutex()  # a database in memory has one connection, so one user at a time
        self._pid = os.getpid()
        self._idle: list[sqlite3.Connection] = []
        weakref.finalize(self, _close_all, self._idle, self._pid)
        with self.read() as connection:
            connection.execute("SELECT 1")

    @contextmanager
    def read(self) -> Generator[sqlite3.Connection, None, None]:
        """Yield a connection for reading."""
        with self._connection() as connection:
            yield connection

    @contextmanager
    def write(self) -> Generator[sqlite3.Connection, None, None]:
        """Yield a connection inside a transaction: all of the block is written, or nothing."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk has rolled it back already
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the idle connections; the next call opens new ones."""
        with self._lock:
            _close_all(self._idle, self._pid)

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection, None, None]:
        if self.path == MEMORY:
            with self._in_use, self._borrowed() as connection:
                yield connection
            return
        with self._borrowed() as connection:
            yield connection

    @contextmanager
    def _borrowed(self) -> Generator[sqlite3.Connection, None, None]:
        try:
            connection = self._take()
            try:
                yield connection
            except sqlite3.Error:
                if self.path != MEMORY:
                    connection.close()
                raise
            with self._lock:
                self._idle.append(connection)
        except sqlite3.Error as error:
            raise self._explained(error) from error
        except UnicodeEncodeError as error:
            raise StoreError(
                f"{self.path}: half a character (a lone surrogate) in a name or text cannot be stored"
            ) from error

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._pid != os.getpid():
                # SQLite forbids using, or even closing, a connection in a forked child.
                self._pid, self._idle = os.getpid(), []
                weakref.finalize(self, _close_all, self._idle, self._pid)
            if self._idle:
                return self._idle.pop()
        return self._open()

    def _open(self) -> sqlite3.Connection:
        create_privately(self.path)
        connection = sqlite3.connect(
            self.path, timeout=self._patience, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA foreign_keys = ON")
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        version = schema_version(connection, self._kind)
        if version == len(self._migrations):
            return
        if version > len(self._migrations):
            raise StoreError(
                f"{self.path} was written by a newer foldline (schema {version} of {self._kind}, this one knows "
                f"{len(self._migrations)}): upgrade foldline or use another file"
            )
        connection.execute("BEGIN IMMEDIATE")
        version = schema_version(connection, self._kind)  # another process may have been first
        for script in self._migrations[version:]:
            for statement in script.split(";"):
                if statement.strip():
                    connection.execute(statement)
        set_schema_version(connection, self._kind, len(self._migrations))
        connection.execute("COMMIT")

    def _explained(self, error: sqlite3.Error) -> StoreError:
        text = str(error)
        if "locked" in text or "busy" in text:
            advice = f"another process held it for more than {self._patience:g} s: try again"
        elif "full" in text:
            advice = "the disk is full: free some space"
        elif "readonly" in text or "unable to open" in text:
            advice = "check that the folder exists and may be written"
        elif "malformed" in text or "not a database" in text:
            advice = "the file is damaged or no database: restore it or use another one"
        else:
            advice = "the operation was undone"
        return StoreError(f"{self.path}: {text} ({advice})")

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Read all rows of a query."""
        with self.read() as connection:
            return connection.execute(statement, values).fetchall()


def schema_version(connection: sqlite3.Connection, kind: str) -> int:
    """Return the version of one kind's schema in a file; 0 where it has none yet."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'foldline_schema'"
    if connection.execute(query).fetchone() is None:
        return 0
    row = connection.execute(
        "SELECT version FROM foldline_schema WHERE kind = ?", (kind,)
    ).fetchone()
    return 0 if row is None else int(row[0])


def set_schema_version(connection: sqlite3.Connection, kind: str, version: int) -> None:
    """Store the version of one kind's schema, inside a transaction."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL)"
    )
    connection.execute(
        "INSERT INTO foldline_schema (kind, version) VALUES (?, ?) "
        "ON CONFLICT (kind) DO UPDATE SET version = excluded.version",
        (kind, version),
    )


def create_privately(path: str | Path) -> None:
    """Create a file that only its owner may read; an existing one is unchanged. SQLite's other files get its mode."""
    if str(path) == MEMORY or str(path).startswith("file:"):
        return
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    except ValueError as error:  # a NUL in the path
        raise StoreError(f"{path!r} is not a path: {error}") from error
    except OSError:
        return  # SQLite says what is wrong with it


def _close_all(connections: list[sqlite3.Connection], pid: int) -> None:
    while connections:
        connection = connections.pop()
        if pid == os.getpid():
            connection.close()
