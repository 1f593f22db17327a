"""The two databases of the run log behind one interface: statements with `?`, one transaction at a time.

SQLite (a file, or `:memory:`) and PostgreSQL (by URL). Statements are constants of this package; values are bound.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from foldline._storage.postgres import PostgresConnection, PostgresServer
from foldline._storage.sqlite import Database

__all__ = ["PostgresTables", "SqliteTables", "Statements", "Tables", "open_tables"]

T = TypeVar("T")
Row = tuple[Any, ...]

SCHEMA = """
CREATE TABLE serve_runs (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, app TEXT NOT NULL, wire TEXT NOT NULL, thread TEXT,
    status TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, finished DOUBLE PRECISION, worker TEXT NOT NULL,
    stop_asked INTEGER NOT NULL DEFAULT 0, last_seq BIGINT NOT NULL DEFAULT 0, request TEXT NOT NULL, result TEXT
);
CREATE INDEX serve_runs_by_thread ON serve_runs (owner, thread, created);
CREATE INDEX serve_runs_by_status ON serve_runs (status, worker);
CREATE INDEX serve_runs_by_time ON serve_runs (created);
CREATE TABLE serve_events (
    run TEXT NOT NULL, seq BIGINT NOT NULL, last BIGINT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run, seq)
);
CREATE TABLE serve_threads (
    owner TEXT NOT NULL, id TEXT NOT NULL, app TEXT, created DOUBLE PRECISION NOT NULL, metadata TEXT NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE TABLE serve_keys (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, settings TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL
);
CREATE TABLE serve_spending (
    owner TEXT NOT NULL, kind TEXT NOT NULL, slot BIGINT NOT NULL, amount DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (owner, kind, slot)
);
CREATE TABLE serve_workers (id TEXT PRIMARY KEY, beat DOUBLE PRECISION NOT NULL)
"""
"""A row holds several events: `data` is a JSON array of those from `seq` to `last`."""

MIGRATIONS = (SCHEMA,)


class Statements(Protocol):
    """Executes statements inside one transaction."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Execute; return the rows."""

    def do(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Execute; return how many rows were changed."""

    def lock(self, name: str) -> None:
        """Lock a name until the transaction ends."""


class Tables(Protocol):
    """A database."""

    is_shared: bool
    """Whether other machines may use it too."""

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Read the rows of one query."""

    def write(self, work: Callable[[Statements], T]) -> T:
        """Call `work` in one transaction. It may be called again, so it must have no other side effects."""

    def close(self) -> None:
        """Close the idle connections."""


class _SqliteStatements:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        rows: list[Row] = self._connection.execute(statement, values).fetchall()
        return rows

    def do(self, statement: str, values: Sequence[Any] = ()) -> int:
        count: int = self._connection.execute(statement, values).rowcount
        return count

    def lock(self, name: str) -> None:
        """Do nothing: SQLite has one writer at a time."""


class SqliteTables:
    """The tables in a SQLite file."""

    is_shared = False

    def __init__(self, path: str) -> None:
        self._database = Database(path, "serve", MIGRATIONS)

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Read the rows of one query."""
        return self._database.rows(statement, values)

    def write(self, work: Callable[[Statements], T]) -> T:
        """Do work in one transaction."""
        with self._database.write() as connection:
            return work(_SqliteStatements(connection))

    def close(self) -> None:
        """Close the idle connections."""
        self._database.close()


class _PostgresStatements:
    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        rows: list[Row] = self._connection.execute(_percent(statement), values).fetchall()
        return rows

    def do(self, statement: str, values: Sequence[Any] = ()) -> int:
        count: int = self._connection.execute(_percent(statement), values).rowcount
        return count

    def lock(self, name: str) -> None:
        self._connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", (name,))


class PostgresTables:
    """The tables in a PostgreSQL database."""

    is_shared = True

    def __init__(self, url: str) -> None:
        schema = SCHEMA.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ")
        schema = schema.replace("CREATE INDEX ", "CREATE INDEX IF NOT EXISTS ")
        # The lock keeps two workers from making the tables at once.
        self._server = PostgresServer(url, f"SELECT pg_advisory_xact_lock(7364529);{schema}")

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Read the rows of one query."""
        return self._server.run(
            lambda connection: _PostgresStatements(connection).rows(statement, values)
        )

    def write(self, work: Callable[[Statements], T]) -> T:
        """Do work in one transaction."""
        return self._server.run(lambda connection: work(_PostgresStatements(connection)))

    def close(self) -> None:
        """Close the idle connections."""
        self._server.close()


def _percent(statement: str) -> str:
    return statement.replace("?", "%s")


def open_tables(place: str) -> Tables:
    """Open a database: `postgresql://…`, a path, or `:memory:`."""
    if place.startswith(("postgresql://", "postgres://")):
        return PostgresTables(place)
    return SqliteTables(place)
