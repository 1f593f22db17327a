"""Deletes rows from stores in SQLite files and PostgreSQL databases, for `tracing.forget`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from foldline._storage.postgres import PostgresConnection, PostgresServer
from foldline.exceptions import StoreError
from foldline.utils.places import is_url

__all__ = ["delete_checkpoints", "delete_messages", "delete_served_runs"]

Delete = Callable[[str, str, Iterable[str]], int]
"""Deletes the rows of a table whose column is one of the values; 0 where table or column are not there."""
Select = Callable[[str, str, str, Iterable[str]], list[str]]
"""Returns a column of the rows of a table whose other column is one of the values."""
Work = Callable[[Delete, Select], int]


def delete_messages(place: str | Path, sessions: Iterable[str]) -> int:
    """Delete conversations from a store of histories; return how many messages."""
    table = "foldline_messages" if is_url(place) else "messages"
    return _delete(place, lambda delete, _: delete(table, "session", sessions))


def delete_checkpoints(place: str | Path, threads: Iterable[str]) -> int:
    """Delete threads from a store of checkpoints; return how many checkpoints."""
    table = "foldline_checkpoints" if is_url(place) else "checkpoints"
    return _delete(place, lambda delete, _: delete(table, "thread", threads))


def delete_served_runs(place: str | Path, runs: Iterable[str], threads: Iterable[str]) -> int:
    """Delete runs, and all runs of threads, from the run log of `foldline serve`; return how many runs."""

    def work(delete: Delete, select: Select) -> int:
        ids = {*runs, *select("id", "serve_runs", "thread", threads)}
        delete("serve_events", "run", ids)
        delete("serve_threads", "id", threads)
        return delete("serve_runs", "id", ids)

    return _delete(place, work)


def _delete(place: str | Path, work: Work) -> int:
    return _delete_in_postgres(str(place), work) if is_url(place) else _delete_in_file(place, work)


def _delete_in_file(file: str | Path, work: Work) -> int:
    """Do work in one transaction; deleted data is overwritten in the file."""
    if not Path(file).exists():
        return 0
    try:
        with closing(sqlite3.connect(file, timeout=10, isolation_level=None)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA foreign_keys = ON")

            def has(table: str, column: str) -> bool:
                rows = connection.execute(f'PRAGMA table_info("{table}")')
                return column in {row[1] for row in rows}

            connection.execute("BEGIN IMMEDIATE")
            count = work(*_statements(connection, has, "?"))
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return count
    except sqlite3.Error as error:
        raise StoreError(f"{file}: cannot delete: {error}") from error


def _delete_in_postgres(url: str, work: Work) -> int:
    def delete_all(connection: PostgresConnection) -> int:
        def has(table: str, column: str) -> bool:
            query = (
                "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = %s "
                "AND NOT attisdropped"
            )
            return connection.execute(query, (table, column)).fetchone() is not None

        return work(*_statements(connection, has, "%s"))

    server = PostgresServer(url, "SELECT 1")
    try:
        return server.run(delete_all)
    finally:
        server.close()


def _statements(
    connection: PostgresConnection, has: Callable[[str, str], bool], mark: str
) -> tuple[Delete, Select]:
    """Return functions that delete rows, and that select a column of rows, by the values of another column."""

    def execute(
        statement: str, table: str, column: str, values: Iterable[str]
    ) -> PostgresConnection:
        keys = sorted(set(values))
        if not keys or not has(table, column):
            return None
        marks = ", ".join([mark] * len(keys))
        return connection.execute(f'{statement} FROM "{table}" WHERE "{column}" IN ({marks})', keys)

    def delete(table: str, column: str, values: Iterable[str]) -> int:
        cursor = execute("DELETE", table, column, values)
        return 0 if cursor is None else int(cursor.rowcount)

    def select(name: str, table: str, column: str, values: Iterable[str]) -> list[str]:
        cursor = execute(f'SELECT "{name}"', table, column, values)
        return [] if cursor is None else [row[0] for row in cursor.fetchall()]

    return delete, select
