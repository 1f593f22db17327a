"""Deletes rows from stores in SQLite files and PostgreSQL databases, for `tracing.forget`.

A table is ours if `foldline_schema` has a row of its kind: a program may have a table `messages` of its own in the same
file. An older foldline wrote no such row in PostgreSQL, where all its tables had our prefix from the beginning.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from foldline._storage.database import Row
from foldline._storage.postgres import PostgresConnection, PostgresServer
from foldline._storage.postgres_database import LOCK
from foldline._storage.schema import LockNumber, newer_version, read_version
from foldline.exceptions import StoreError
from foldline.utils._data_places import is_url

__all__ = ["delete_checkpoints", "delete_messages", "delete_served_runs"]


class Kind(NamedTuple):
    """A kind of store: its version, its first table, and the names of tables in version 1 of a SQLite file."""

    name: str
    version: int
    table: str
    first_names: Mapping[str, str]


HISTORY: Final = Kind("history", 2, "foldline_messages", {"foldline_messages": "messages"})
CHECKPOINTS: Final = Kind(
    "checkpoints", 2, "foldline_checkpoints", {"foldline_checkpoints": "checkpoints"}
)
DELETED_AT_ONCE: Final = 500
"""The most threads of one transaction: PostgreSQL has room for some thousand locks."""
WORKERS: Final = Kind("workers", 1, "foldline_workers", {})
SNAPSHOTS: Final = Kind("snapshots", 1, "foldline_snapshots", {})
SERVE: Final = Kind("serve", 1, "serve_runs", {})
SERVE_ANSWERS: Final = Kind("serve_answers", 1, "serve_answers", {})
SERVE_REQUESTS: Final = Kind("serve_requests", 1, "serve_requests", {})
SERVE_HOLDS: Final = Kind("serve_holds", 1, "serve_holds", {})
KINDS: Final = (
    HISTORY, CHECKPOINTS, WORKERS, SNAPSHOTS, SERVE, SERVE_ANSWERS, SERVE_REQUESTS, SERVE_HOLDS,
)  # fmt: skip
"""The schemas themselves lie in higher layers: a test compares the versions."""

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
    ids, count = sorted(set(threads)), 0
    for start in range(0, len(ids), DELETED_AT_ONCE):
        names = ids[start : start + DELETED_AT_ONCE]
        # The owners first: a run that goes on cannot write any more.
        _delete(place, WORKERS, partial(_delete_rows, "foldline_writers", "thread", names), names)
        work = partial(_delete_rows, "foldline_checkpoints", "thread", names)
        count += _delete(place, CHECKPOINTS, work, names)
        # After the entries: without its entry, no snapshot is written any more.
        _delete(
            place, SNAPSHOTS, partial(_delete_rows, "foldline_snapshots", "thread", names), names
        )
    return count


def delete_served_runs(place: str | Path, runs: Iterable[str], threads: Iterable[str]) -> int:
    """Delete runs, and all runs of threads, from the run log of `foldline serve`; return how many runs."""
    ids = set(runs)

    def delete_answers(delete: Delete, select: Select) -> int:
        ids.update(select("id", "serve_runs", "thread", threads))
        delete("serve_answers", "run", ids)
        delete("serve_answers", "asked", ids)
        return delete("serve_chains", "run", ids)

    def delete_requests(delete: Delete, select: Select) -> int:
        ids.update(select("id", "serve_runs", "thread", threads))
        return delete("serve_requests", "run", ids)

    def delete_runs(delete: Delete, select: Select) -> int:
        ids.update(select("id", "serve_runs", "thread", threads))
        delete("serve_threads", "id", threads)
        # First the runs: that waits for events that are being written, which are seen then.
        count = delete("serve_runs", "id", ids)
        delete("serve_events", "run", ids)
        return count

    def delete_holds(delete: Delete, select: Select) -> int:
        return delete("serve_holds", "run", ids)

    _delete(
        place, SERVE_ANSWERS, delete_answers
    )  # while the runs can still be found, if this is cut off
    _delete(place, SERVE_REQUESTS, delete_requests)
    count = _delete(place, SERVE, delete_runs)
    _delete(place, SERVE_ANSWERS, delete_answers)  # what was answered meanwhile
    _delete(place, SERVE_REQUESTS, delete_requests)
    _delete(place, SERVE_HOLDS, delete_holds)
    return count


def _delete_rows(
    table: str, column: str, values: Iterable[str], delete: Delete, select: Select
) -> int:
    return delete(table, column, values)


def _delete(place: str | Path, kind: Kind, work: Work, threads: Sequence[str] = ()) -> int:
    """Do work in one transaction, while nobody adds entries to some threads."""
    if is_url(place):
        return _delete_in_postgres(str(place), kind, work, threads)
    return _delete_in_file(place, kind, work)


def _delete_in_file(file: str | Path, kind: Kind, work: Work) -> int:
    """Do work in one transaction; deleted data is overwritten in the file."""
    if not Path(file).exists():
        raise StoreError(
            f"{file}: there is no such file, so nothing was deleted there: check the path, or leave it out"
        )
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
    return _known_version(rows.fetchall(), where, kind)


def _known_version(rows: list[Row], where: str, kind: Kind) -> int:
    """Return the version in rows of `foldline_schema`; a newer foldline may keep the data elsewhere too."""
    version = read_version(rows, where, kind.name)
    if version > kind.version:
        raise newer_version(where, kind.name, kind.version, version)
    return version


def _delete_in_postgres(url: str, kind: Kind, work: Work, threads: Sequence[str]) -> int:
    server = PostgresServer(url)

    def delete_all(connection: PostgresConnection) -> int:
        query = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = %s"
        if connection.execute(query, (kind.table,)).fetchone() is None:
            return 0
        if connection.execute(query, ("foldline_schema",)).fetchone() is not None:
            versions = "SELECT version FROM foldline_schema WHERE kind = %s"
            rows = connection.execute(versions, (kind.name,)).fetchall()
            _known_version(rows, server.where, kind)
        for name in threads:  # an entry that is not committed yet would not be seen, and stay
            connection.execute(LOCK, (name, int(LockNumber.THREAD)))
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
