"""`SqliteDatabase`: the tables of one kind of store in a SQLite file.

WAL, so that readers and one writer do not wait for each other; `synchronous=FULL`, so that what was acknowledged is on
the disk; a bounded wait for other writers. Several kinds of store may share a file, and a program may keep tables of
its own in it. Files are created for their owner alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar

from foldline._io.locks import mutex
from foldline._storage.database import Row
from foldline._storage.pool import ConnectionPool
from foldline._storage.schema import (
    CREATE_VERSIONS,
    SET_VERSION,
    Dialect,
    LockNumber,
    Schema,
    newer_version,
    read_version,
    statements_of,
)
from foldline._storage.sqlite import MEMORY, create_privately
from foldline.exceptions import StoreError

__all__ = ["SqliteDatabase"]

T = TypeVar("T")
PATIENCE: Final = 10.0
"""Seconds to wait for another writer, or for a connection, before giving up."""
POOL_SIZE: Final = 8
CHECKED_BYTES: Final = 16 * 2**20
"""Up to this size a file is checked for damage when a process opens it for the first time."""
_CHECKED: Final[set[tuple[tuple[int, int] | None, str]]] = set()
"""Which kinds in which files this process has checked."""
HAS_TABLE: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
READ_VERSION: Final = "SELECT version FROM foldline_schema WHERE kind = ?"


class FileConnection(sqlite3.Connection):
    """A connection that knows which file it has open."""

    file: tuple[int, int] | None = None


class SqliteConnection:
    """Statements inside one transaction."""

    dialect: Dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement; return all its rows."""
        rows: list[Row] = self._connection.execute(statement, values).fetchall()
        return rows

    def row(self, statement: str, values: Sequence[Any] = ()) -> Row | None:
        """Run a statement; return its first row."""
        row: Row | None = self._connection.execute(statement, values).fetchone()
        return row

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; return how many rows it changed."""
        return int(self._connection.execute(statement, values).rowcount)

    def each(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of some rows of values."""
        self._connection.executemany(statement, rows)

    def pages(
        self, statement: str, values: Sequence[Any] = (), *, size: int = 1000
    ) -> Iterator[list[Row]]:
        """Run a statement; yield its rows page by page."""
        cursor = self._connection.execute(statement, values)
        try:
            while page := cursor.fetchmany(size):
                yield page
        finally:
            cursor.close()

    def lock(self, number: LockNumber, name: str) -> None:
        """Do nothing: SQLite has one writer at a time."""


class SqliteDatabase:
    """The tables of one kind of store in a file."""

    is_shared = False
    dialect: Dialect = "sqlite"

    def __init__(
        self,
        path: str | Path,
        schema: Schema,
        *,
        is_durable: bool = True,
        cache_kib: int | None = None,
        patience: float = PATIENCE,
        pool_size: int = POOL_SIZE,
    ) -> None:
        self.where = str(path)
        self._schema = schema
        self._patience = patience
        self._synchronous = "FULL" if is_durable else "NORMAL"
        self._cache_kib = cache_kib
        is_memory = self.where == MEMORY
        self._path = (
            MEMORY if is_memory else os.path.abspath(path)
        )  # the folder may change meanwhile
        self._pool: ConnectionPool[FileConnection] = ConnectionPool(
            self.where,
            self._open,
            size=1 if is_memory else pool_size,
            patience=patience,
            idle_seconds=float("inf") if is_memory else 60.0,
        )
        self._memory = self._open() if is_memory else None
        """The one connection of a database in memory: another one would be another database."""
        self._memory_lock: AbstractContextManager[Any] = mutex()
        self.read(lambda connection: connection.rows("SELECT 1"))

    def read(self, work: Callable[[SqliteConnection], T]) -> T:
        """Do work that changes nothing, on one snapshot."""
        with self._connection() as connection:
            return self._within(connection, "BEGIN", work)

    def write(self, work: Callable[[SqliteConnection], T], *, may_repeat: bool = True) -> T:
        """Do work in one transaction: all of it or nothing."""
        with self._connection() as connection:
            return self._within(connection, "BEGIN IMMEDIATE", work)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Read all rows of one query, which is a snapshot by itself."""
        with self._connection() as connection:
            rows: list[Row] = connection.execute(statement, values).fetchall()
            return rows

    def pages(
        self, statement: str, values: Sequence[Any] = (), *, size: int = 1000
    ) -> Iterator[list[Row]]:
        """Read the rows of one query page by page, on one snapshot."""
        with self._connection() as connection:
            yield from SqliteConnection(connection).pages(statement, values, size=size)

    def close(self) -> None:
        """Close the idle connections; the next use opens new ones."""
        self._pool.close()

    def _within(
        self, connection: sqlite3.Connection, begin: str, work: Callable[[SqliteConnection], T]
    ) -> T:
        connection.execute(begin)
        try:
            result = work(SqliteConnection(connection))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk has rolled it back already
                connection.execute("ROLLBACK")
            raise
        return result

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection, None, None]:
        """Yield a connection; errors of SQLite become `StoreError`, and other errors leave the connection usable."""
        other_error: BaseException | None = None
        lock = nullcontext() if self._memory is None else self._memory_lock
        try:
            with lock, self._borrowed() as connection:
                self._check_presence(connection)
                try:
                    yield connection
                except sqlite3.Error:
                    raise
                except BaseException as error:  # noqa: BLE001  of the caller: the connection is sound
                    other_error = error
        except sqlite3.Error as error:
            raise self._explained(error) from error
        except UnicodeDecodeError as error:  # SQLite quotes the damaged definition of a table
            raise self._damaged("its list of tables is no text") from error
        if isinstance(other_error, UnicodeEncodeError):
            raise StoreError(
                f"{self.where}: half a character (a lone surrogate) in a name or text cannot be stored"
            ) from other_error
        if other_error is not None:
            raise other_error

    def _check_presence(self, connection: FileConnection) -> None:
        """Raise where the file was removed or replaced: what is written to the open one would be lost."""
        if connection.file is not None and connection.file != _file_at(self._path):
            self._pool.close()
            raise StoreError(
                f"{self.where} was removed or replaced while it was open; nothing of this operation was written. "
                "Restore it; the next operation opens the file that is there then"
            )

    def _borrowed(self) -> AbstractContextManager[FileConnection]:
        return self._pool.connection() if self._memory is None else nullcontext(self._memory)

    # -- opening

    def _open(self) -> FileConnection:
        create_privately(self._path)
        connection = sqlite3.connect(
            self._path,
            timeout=self._patience,
            isolation_level=None,
            check_same_thread=False,
            factory=FileConnection,
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA foreign_keys = ON")
            if self._cache_kib is not None:
                connection.execute(f"PRAGMA cache_size = -{self._cache_kib}")
            for schema in (self._schema, *self._schema.needs):
                self._upgrade(connection, schema)
            if self._path != MEMORY:
                connection.file = _file_at(self._path)
                self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _upgrade(self, connection: sqlite3.Connection, schema: Schema) -> None:
        if self._version(connection, schema) == schema.version:
            return
        connection.execute("BEGIN IMMEDIATE")
        version = self._version(connection, schema)  # another process may have been first
        if version > schema.version:
            raise newer_version(self.where, schema, version)
        connection.execute(CREATE_VERSIONS)
        scripts = [schema.create]
        if version:
            scripts = [upgrade.sqlite for upgrade in schema.upgrades[version - 1 :]]
        for script in scripts:
            for statement in statements_of(script, "sqlite"):
                connection.execute(statement)
        connection.execute(SET_VERSION, (schema.kind, schema.version))
        connection.execute("COMMIT")

    def _version(self, connection: sqlite3.Connection, schema: Schema) -> int:
        if connection.execute(HAS_TABLE, ("foldline_schema",)).fetchone() is None:
            return 0
        rows = connection.execute(READ_VERSION, (schema.kind,)).fetchall()
        return read_version(rows, self.where, schema.kind)

    def _check(self, connection: FileConnection) -> None:
        """Check the tables once per process: through a damaged index rows would be missing without an error."""
        key = (connection.file, self._schema.kind)
        if key in _CHECKED or os.path.getsize(self._path) > CHECKED_BYTES:
            return
        schemas = (self._schema, *self._schema.needs)
        for table in (table for schema in schemas for table in schema.tables):
            for (problem,) in connection.execute(f'PRAGMA integrity_check("{table}")'):
                if problem != "ok":
                    raise self._damaged(problem)
        _CHECKED.add(key)

    # -- errors

    def _damaged(self, problem: str) -> StoreError:
        return StoreError(
            f"{self.where} is damaged: {problem}. Restore it from a backup; where only an index is damaged, REINDEX in "
            "the sqlite3 shell makes it anew"
        )

    def _explained(self, error: sqlite3.Error) -> StoreError:
        text = str(error)
        if "no such table" in text or "no such column" in text:
            return self._changed_by_another(text)
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
        return StoreError(f"{self.where}: {text} ({advice})")

    def _changed_by_another(self, text: str) -> StoreError:
        """Return the error for a table that is not there: a newer foldline may have renamed it meanwhile."""
        try:
            connection = sqlite3.connect(self._path, timeout=self._patience)
            try:
                for schema in (self._schema, *self._schema.needs):
                    version = self._version(connection, schema)
                    if version > schema.version:
                        return newer_version(self.where, schema, version)
            finally:
                connection.close()
        except (sqlite3.Error, StoreError):
            pass
        return StoreError(
            f"{self.where}: {text}: tables of foldline were removed or changed; restore the file or use another one"
        )


def _file_at(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
