"""Deletes rows from stores in SQLite files and PostgreSQL databases, for `tracing.forget`.

A table is ours if `foldline_schema` has a row of its kind: a program may have a table `messages` of its own in the same
file. An older foldline wrote no such row in PostgreSQL, where all its tables had our prefix from the beginning.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from foldline._storage.postgres import PostgresConnection, PostgresServer
from foldline._storage.schema import read_version
from foldline.exceptions import StoreError
from foldline.utils.data_places import is_url

__all__ = ["delete_checkpoints", "delete_messages", "delete_served_runs"]


class Kind(NamedTuple):
    """A kind of store: its first table, and the names that tables had in version 1 of a SQLite file."""

    name: str
    table: str
    first_names: Mapping[str, str]


HISTORY: Final = Kind("history", "foldline_messages", {"foldline_messages": "messages"})
CHECKPOINTS: Final = Kind(
    "checkpoints", "foldline_checkpoints", {"foldline_checkpoints": "checkpoints"}
)
WORKERS: Final = Kind("workers", "foldline_workers", {})
SERVE: Final = Kind("serve", "serve_runs", {})

Delete = Callable[[str, str, Iterable[str]], int]
"""Deletes the rows of a table whose column is one of the values."""
Select = Callable[[str, str, str, Iterable[str]], list[str]]
"""Returns a column of the rows of a table whose other column is one of the values."""
Work = Callable[[Delete, Select], int]


def delete_messages(place: str | Path, sessions: Iterable[str]) -> int:
    """Delete conversations from a store of histories; return how many messages."""
    return _delete(
        place, HISTORY, lambda delete, _: delete("foldline_messages", "session", sessions)
    )


def delete_checkpoints(place: str | Path, threads: Iterable[str]) -> int:
    """Delete threads from a store of checkpoints, with their owners; return how many checkpoints."""
    ids = list(threads)
    _delete(place, WORKERS, lambda delete, _: delete("foldline_writers", "thread", ids))
    return _delete(
        place, CHECKPOINTS, lambda delete, _: delete("foldline_checkpoints", "thread", ids)
    )


def delete_served_runs(place: str | Path, runs: Iterable[str], threads: Iterable[str]) -> int:
    """Delete runs, and all runs of threads, from the run log of `foldline serve`; return how many runs."""

    def work(delete: Delete, select: Select) -> int:
        ids = {*runs, *select("id", "serve_runs", "thread", threads)}
        delete("serve_events", "run", ids)
        delete("serve_threads", "id", threads)
        return delete("serve_runs", "id", ids)

    return _delete(place, SERVE, work)


def _delete(place: str | Path, kind: Kind, work: Work) -> int:
    if is_url(place):
        return _delete_in_postgres(str(place), kind, work)
    return _delete_in_file(place, kind, work)


def _delete_in_file(file: str | Path, kind: Kind, work: Work) -> int:
    """Do work in one transaction; deleted data is overwritten in the file."""
    if not Path(file).exists():
        return 0
    try:
        with closing(sqlite3.connect(file, timeout=10, isolation_level=None)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE")
            version = _version_in_file(connection, str(file), kind)
            count = 0
            if version:
                names = kind.first_names if version == 1 else {}
                count = work(*_statements(connection, _Place(str(file), names, "?")))
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return count
    except sqlite3.Error as error:
        raise StoreError(f"{file}: cannot delete: {error}") from error


def _version_in_file(connection: sqlite3.Connection, where: str, kind: Kind) -> int:
    """Return the version of a kind in a file; 0 where the file has no tables of that kind of ours."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'foldline_schema'"
    if connection.execute(query).fetchone() is None:
        return 0
    rows = connection.execute("SELECT version FROM foldline_schema WHERE kind = ?", (kind.name,))
    return read_version(rows.fetchall(), where, kind.name)


def _delete_in_postgres(url: str, kind: Kind, work: Work) -> int:
    server = PostgresServer(url)

    def delete_all(connection: PostgresConnection) -> int:
        query = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = %s"
        if connection.execute(query, (kind.table,)).fetchone() is None:
            return 0
        return work(*_statements(connection, _Place(server.where, {}, "%s")))

    try:
        return server.run(delete_all)
    finally:
        server.close()


class _Place(NamedTuple):
    where: str
    names: Mapping[str, str]
    """The names of tables that are called otherwise there."""
    mark: str


def _statements(connection: PostgresConnection, place: _Place) -> tuple[Delete, Select]:
    """Return functions that delete rows, and that select a column of rows, by the values of another column."""

    def execute(
        statement: str, table: str, column: str, values: Iterable[str]
    ) -> PostgresConnection:
        keys = sorted(set(values))
        if not keys:
            return None
        name = place.names.get(table, table)
        marks = ", ".join([place.mark] * len(keys))
        return connection.execute(f'{statement} FROM "{name}" WHERE "{column}" IN ({marks})', keys)

    def delete(table: str, column: str, values: Iterable[str]) -> int:
        cursor = execute("DELETE", table, column, values)
        return 0 if cursor is None else int(cursor.rowcount)

    def select(name: str, table: str, column: str, values: Iterable[str]) -> list[str]:
        cursor = execute(f'SELECT "{name}"', table, column, values)
        return [] if cursor is None else [row[0] for row in cursor.fetchall()]

    return delete, select
