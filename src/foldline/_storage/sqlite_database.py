"""`SqliteDatabase`: the tables of one kind of store in a SQLite file.

WAL, so that readers and one writer do not wait for each other; `synchronous=FULL`, so that what was acknowledged is on
the disk; a bounded wait for other writers. Several kinds of store may share a file, and a program may keep tables of
its own in it. Files are created for their owner alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from foldline._io.deadline import seconds_left
from foldline._storage.database import Row
from foldline._storage.pool import IDLE_SECONDS, ConnectionPool, Slot, shared_pool
from foldline._storage.schema import (
    CREATE_VERSIONS,
    SET_VERSION,
    Dialect,
    LockNumber,
    Schema,
    newer_version,
    read_version,
    run_script,
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


class SqliteConnection(sqlite3.Connection):
    """Statements inside one transaction, on a connection that knows which file it has open."""

    dialect: Dialect = "sqlite"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.file: tuple[int, int] | None = None
        self.is_snapshot = False
        """Whether it does not see what others write: the file is in a folder where nothing may be written."""
        self.synchronous = ""
        """The mode in which it commits."""
        self.page_cursors: list[sqlite3.Cursor] = []
        """Those of pages that were not read to the end."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement; return all its rows."""
        rows: list[Row] = self.execute(statement, values).fetchall()
        return rows

    def row(self, statement: str, values: Sequence[Any] = ()) -> Row | None:
        """Run a statement; return its first row."""
        row: Row | None = self.execute(statement, values).fetchone()
        return row

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; return how many rows it changed."""
        return int(self.execute(statement, values).rowcount)

    def each(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement for each of some rows of values; return how many rows of the table it changed."""
        return int(self.executemany(statement, rows).rowcount)

    def pages(
        self, statement: str, values: Sequence[Any] = (), *, size: int = 1000
    ) -> Generator[list[Row], None, None]:
        """Run a statement; yield its rows page by page."""
        cursor = self.execute(statement, values)
        self.page_cursors.append(cursor)
        try:
            while page := cursor.fetchmany(size):
                yield page
        finally:
            cursor.close()
            with suppress(ValueError):  # the transaction has ended before
                self.page_cursors.remove(cursor)

    def close_pages(self) -> None:
        """End the pages that were not read to the end: an open cursor would keep the snapshot of this transaction."""
        while self.page_cursors:
            self.page_cursors.pop().close()

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
        follows_file: bool = False,
    ) -> None:
        self.where = str(path)
        self._schema = schema
        self._patience = patience
        self._synchronous = "FULL" if is_durable else "NORMAL"
        self._cache_kib = cache_kib
        self._follows_file = follows_file
        is_memory = self.where == MEMORY
        # Absolute, for the current folder may change. A database in memory has one connection, which stays: another one
        # would be another database.
        self._path = MEMORY if is_memory else os.path.abspath(path)
        self._losses: int | None = None
        """How often the file had been lost when this object last used it."""

        def make_pool() -> ConnectionPool[SqliteConnection]:
            return ConnectionPool(
                self.where,
                lambda: self._open(),
                size=1 if is_memory else pool_size,
                patience=patience,
                idle_seconds=float("inf") if is_memory else IDLE_SECONDS,
                survives_fork=is_memory,
            )

        key = (self._path, schema, self._synchronous, cache_kib, patience, pool_size)
        self._pool = make_pool() if is_memory else shared_pool(key, make_pool)
        self._look()

    def read(self, work: Callable[[SqliteConnection], T]) -> T:
        """Do work that changes nothing, on one snapshot."""
        return self._within("BEGIN", work)

    def write(
        self,
        work: Callable[[SqliteConnection], T],
        *,
        may_repeat: bool = True,
        is_durable: bool = True,
    ) -> T:
        """Do work in one transaction: all of it or nothing."""
        return self._within("BEGIN IMMEDIATE", work, is_durable=is_durable)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Read all rows of one query, which is a snapshot by itself."""
        slot = self._take()
        try:
            rows: list[Row] = slot.connection.execute(statement, values).fetchall()
        except BaseException as error:
            self._end(slot, error)
            raise
        self._give_back(slot)
        return rows

    def pages(
        self, statement: str, values: Sequence[Any] = (), *, size: int = 1000
    ) -> Generator[list[Row], None, None]:
        """Read the rows of one query page by page, on one snapshot."""
        slot = self._take()
        try:
            yield from slot.connection.pages(statement, values, size=size)
        except BaseException as error:
            self._end(slot, error)
            raise
        self._give_back(slot)

    def maintain(self, *statements: str) -> None:
        """Run statements that cannot be in a transaction."""
        slot = self._take()
        try:
            for statement in statements:
                slot.connection.execute(statement).fetchall()
        except BaseException as error:
            self._end(slot, error)
            raise
        self._give_back(slot)

    def close(self) -> None:
        """Close the idle connections; the next use opens new ones."""
        if self._path != MEMORY:
            self._losses = None
            self._pool.close()

    def _within(
        self, begin: str, work: Callable[[SqliteConnection], T], *, is_durable: bool = True
    ) -> T:
        slot = self._take()
        connection = slot.connection
        try:
            self._set_durable(connection, is_durable=is_durable)
            self._begin(connection, begin)
            try:
                result = work(connection)
                if connection.page_cursors:
                    connection.close_pages()
                connection.execute("COMMIT")
            except BaseException:
                connection.close_pages()
                if connection.in_transaction:  # a full disk has rolled it back already
                    connection.execute("ROLLBACK")
                raise
        except BaseException as error:
            self._end(slot, error)
            raise
        self._give_back(slot)
        return result

    def _set_durable(self, connection: SqliteConnection, *, is_durable: bool) -> None:
        """Let the next transactions wait for the disk, or not."""
        level = self._synchronous if is_durable else "NORMAL"
        if connection.synchronous != level:
            connection.execute(f"PRAGMA synchronous = {level}")
            connection.synchronous = level

    def _begin(self, connection: SqliteConnection, begin: str) -> None:
        """Begin a transaction; wait for another writer no longer than the deadline of the call."""
        left = seconds_left()
        if left is None or left >= self._patience:
            connection.execute(begin)
            return
        connection.execute(f"PRAGMA busy_timeout = {int(left * 1000)}")
        try:
            connection.execute(begin)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(self._patience * 1000)}")

    def _take(self) -> Slot[SqliteConnection]:
        """Take a connection to the file that is there.

        Where it was removed or replaced, what is written to the open one would be lost: raise, or follow it.
        """
        while True:
            try:
                slot = self._pool.take()
            except sqlite3.Error as error:
                raise self._explained(error) from error
            except UnicodeDecodeError as error:  # SQLite quotes the damaged definition of a table
                raise self._damaged("its list of tables is no text") from error
            file = slot.connection.file
            if file is not None and file != _file_at(self._path):
                self._pool.drop(slot)
                self._pool.lose()
            elif self._losses in (None, self._pool.losses) or self._follows_file:
                self._losses = self._pool.losses
                return slot
            else:  # another object has noticed it
                self._give_back(slot)
            if self._losses is not None and not self._follows_file:
                self._losses = self._pool.losses
                raise StoreError(
                    f"{self.where} was removed or replaced while it was open; nothing of this operation was written. "
                    "Restore it; the next operation opens the file that is there then"
                )

    def _give_back(self, slot: Slot[SqliteConnection]) -> None:
        if slot.connection.is_snapshot:  # the next one sees what was written meanwhile
            self._pool.drop(slot)
        else:
            self._pool.give_back(slot)

    def _end(self, slot: Slot[SqliteConnection], error: BaseException) -> None:
        """Give a connection back after an error, which is explained if SQLite raised it."""
        if isinstance(error, sqlite3.Error) and self._path != MEMORY:
            self._pool.drop(slot)
        else:  # of the caller: the connection is sound
            self._give_back(slot)
        if isinstance(error, sqlite3.Error):
            raise self._explained(error) from error
        if isinstance(error, UnicodeEncodeError):
            raise StoreError(
                f"{self.where}: half a character (a lone surrogate) in a name or text cannot be stored"
            ) from error

    # -- opening

    def _look(self) -> None:
        """Look at the versions, also through a connection that another object has opened, maybe long ago."""
        slot = self._take()
        try:
            for schema in (self._schema, *self._schema.needs):
                self._upgrade(slot.connection, schema)
        except BaseException as error:
            self._pool.drop(slot)
            if isinstance(error, sqlite3.Error):
                raise self._explained(error) from error
            raise
        self._give_back(slot)

    def _open(self) -> SqliteConnection:
        create_privately(self._path)
        connection = self._connect()
        try:
            self._set_durable(connection, is_durable=True)
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

    def _connect(self) -> SqliteConnection:
        connection = self._connect_to(self._path)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error:
            connection.close()
            if self._path == MEMORY or _may_write(os.path.dirname(self._path)):
                raise
        else:
            return connection
        # SQLite cannot make the file by which readers and writers agree: it is read as it is now, without its log.
        if _size(f"{self._path}-wal"):
            raise StoreError(
                f"{self.where}: {self.where}-wal has changes that cannot be read where nothing may be written: open "
                "the file once where its folder may be written, or copy both files there"
            )
        snapshot = self._connect_to(f"{Path(self._path).as_uri()}?immutable=1")
        snapshot.is_snapshot = True
        return snapshot

    def _connect_to(self, path: str) -> SqliteConnection:
        return sqlite3.connect(
            path,
            timeout=self._patience,
            isolation_level=None,
            check_same_thread=False,
            factory=SqliteConnection,
            uri=path != self._path,
        )

    def _upgrade(self, connection: SqliteConnection, schema: Schema) -> None:
        if self._version(connection, schema) == schema.version:
            return
        connection.execute("BEGIN IMMEDIATE")
        version = self._version(connection, schema)  # another process may have been first
        if version > schema.version:
            raise newer_version(self.where, schema.kind, schema.version, version)
        connection.execute(CREATE_VERSIONS)
        scripts = [schema.create, schema.create_own.sqlite]
        if version:
            scripts = [upgrade.sqlite for upgrade in schema.upgrades[version - 1 :]]
        for script in scripts:
            run_script(connection, script)
        connection.execute(SET_VERSION, (schema.kind, schema.version))
        connection.execute("COMMIT")

    def _version(self, connection: sqlite3.Connection, schema: Schema) -> int:
        if connection.execute(HAS_TABLE, ("foldline_schema",)).fetchone() is None:
            return 0
        rows = connection.execute(READ_VERSION, (schema.kind,)).fetchall()
        return read_version(rows, self.where, schema.kind)

    def _check(self, connection: SqliteConnection) -> None:
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
            time = "until the time limit of the call"
            if seconds_left() != 0:
                time = f"for more than {self._patience:g} s"
            advice = f"another process held it {time}: try again"
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
                        return newer_version(self.where, schema.kind, schema.version, version)
            finally:
                connection.close()
        except (sqlite3.Error, StoreError):
            pass
        return StoreError(
            f"{self.where}: {text}: tables of foldline were removed or changed; restore the file or use another one"
        )


def _may_write(folder: str) -> bool:
    return os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _file_at(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
