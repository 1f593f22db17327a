"""`TraceDatabase`: the tables of traces in a SQLite file or in PostgreSQL, opened when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from foldline._io.locks import mutex
from foldline._storage.database import Connection, Database, Row
from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresServer
from foldline._storage.postgres_database import has_tables
from foldline._storage.schema import Dialect, LockNumber
from foldline.exceptions import StoreError
from foldline.tracers._schema import SCHEMA
from foldline.tracers._text_index import Fts5Index, LexemeIndex, TextIndex
from foldline.utils._data_places import TracePlace, is_url, place_name

__all__ = ["TraceDatabase", "marks", "read_value"]

T = TypeVar("T")
PATIENCE: Final = 2.0
"""Seconds that SQLite waits for another writer; the thread that writes tries again."""
POSTGRES_SIZE: Final = (
    "SELECT coalesce(sum(pg_column_size(inputs) + coalesce(pg_column_size(outputs), 0) + "
    "coalesce(pg_column_size(request), 0) + pg_column_size(extra) + coalesce(pg_column_size(events), 0) + "
    "coalesce(pg_column_size(error), 0) + 500), 0) + "
    "(SELECT coalesce(sum(pg_column_size(lexemes)), 0) FROM foldline_run_words) FROM foldline_runs"
)
"""Of the rows as they are stored; the 500 are for the short columns and their indexes."""
SQLITE_SIZE: Final = (
    "SELECT (page_count - freelist_count) * page_size "
    "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)


class TraceDatabase:
    """The traces of one place; what is wrong with it is a `StoreError`."""

    def __init__(self, place: TracePlace) -> None:
        """Name the place; it is not opened yet."""
        self.place = place
        self.is_shared = is_url(place)
        """Whether it is a database of a server."""
        self.name: str = place_name(str(place)) if self.is_shared else str(place)
        """What errors call it: the path, or the URL without its password."""
        self.index: TextIndex = LexemeIndex() if self.is_shared else Fts5Index()
        self._lock = mutex()
        self._database: Database | None = None

    def exists(self) -> bool:
        """Return whether there are traces; nothing is created."""
        if not self.is_shared:
            return Path(self.place).exists()
        if self._database is not None:
            return True
        server = self._server()
        try:
            return has_tables(server, SCHEMA)
        finally:
            server.close()

    def connect(self) -> Database:
        """Return the open database; at first its tables are created or brought to the newest version."""
        with self._lock:
            if self._database is None:
                place = self._server() if self.is_shared else self.place
                self._database = open_database(
                    place, SCHEMA, is_durable=False, patience=PATIENCE, follows_file=True
                )
            return self._database

    def _server(self) -> PostgresServer:
        try:
            return PostgresServer(str(self.place))
        except StoreError as error:
            raise StoreError(f"{self.name}: {error}") from error

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Read all rows of one query."""
        return self.connect().rows(statement, _clean(values) if self.is_shared else values)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Do work that changes nothing, on one snapshot."""
        return self.connect().read(self._cleaned(work))

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do work in one transaction, while no other program writes; it may be done twice where a connection breaks.

        So batches of several programs are written one after the other: a `seq` that is seen later is greater.
        """
        run = self._cleaned(work)

        def locked(connection: Connection) -> T:
            connection.lock(LockNumber.TRACES, "")
            return run(connection)

        return self.connect().write(locked)

    def _cleaned(self, work: Callable[[Connection], T]) -> Callable[[Connection], T]:
        return (lambda connection: work(_Cleaner(connection))) if self.is_shared else work

    def used_bytes(self) -> int:
        """Return the size of a file without its free pages, or about how many bytes the runs take in PostgreSQL."""
        return int(self.rows(POSTGRES_SIZE if self.is_shared else SQLITE_SIZE)[0][0])

    def shrink(self) -> None:
        """Return free pages to the disk; in PostgreSQL the space of what was deleted is used again."""
        if self.is_shared:
            tables = (*SCHEMA.tables, "foldline_run_words")
            self.connect().maintain(*(f"VACUUM {table}" for table in tables))
        else:
            self.connect().maintain("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close idle connections; the next use opens new ones."""
        if self._database is not None:
            self._database.close()

    def release(self) -> None:
        """Close the file, as when there is nothing to do for a while; connections to a server are kept."""
        if not self.is_shared:
            self.close()


class _Cleaner:
    """Replaces NUL in values, which PostgreSQL's texts cannot hold: a run is rather written with another character."""

    dialect: Dialect = "postgres"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.pages = connection.pages
        self.lock = connection.lock

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._connection.rows(statement, _clean(values))

    def row(self, statement: str, values: Sequence[Any] = ()) -> Row | None:
        return self._connection.row(statement, _clean(values))

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._connection.run(statement, _clean(values))

    def each(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        return self._connection.each(statement, [_clean(row) for row in rows])


def _clean(values: Sequence[Any]) -> list[Any]:
    return [
        value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value
        for value in values
    ]


def marks(values: Sequence[Any]) -> str:
    """Return as many `?` as there are values."""
    return ", ".join("?" * len(values))


def read_value(connection: Connection, statement: str, values: Sequence[Any] = ()) -> Any:  # noqa: ANN401  of any column
    """Return the first column of the first row of a statement that always has one."""
    return connection.rows(statement, values)[0][0]
