"""`PostgresDatabase`: the tables of one kind of store in a PostgreSQL database (extra `postgres`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import Any, Final, TypeVar

from foldline._io.deadline import seconds_left
from foldline._storage.database import Row
from foldline._storage.postgres import PostgresConnection, PostgresServer
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
from foldline.exceptions import StoreError

__all__ = ["LOCK", "PostgresDatabase", "has_tables", "stored_version"]

T = TypeVar("T")
HAS_TABLE: Final = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?"
"""Not `to_regclass`, which does not see at once what another session has made."""
NOT_THERE: Final = ("42P01", "42703")
"""The codes of PostgreSQL for a table and a column that are not there."""
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))"
"""Locks a name until the transaction ends."""
CURSOR_NUMBERS: Final = count(1)
READ_VERSION: Final = "SELECT version FROM foldline_schema WHERE kind = ?"


class PostgresStatements:
    """Statements with `?` inside one transaction."""

    dialect: Dialect = "postgres"

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self._page_cursors: list[Any] = []

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement; return all its rows."""
        rows: list[Row] = self._connection.execute(_percent(statement), values).fetchall()
        return rows

    def row(self, statement: str, values: Sequence[Any] = ()) -> Row | None:
        """Run a statement; return its first row."""
        row: Row | None = self._connection.execute(_percent(statement), values).fetchone()
        return row

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; return how many rows it changed."""
        return int(self._connection.execute(_percent(statement), values).rowcount)

    def each(self, statement: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement for each of some rows of values; return how many rows of the table it changed."""
        if not rows:
            return 0
        with self._connection.cursor() as cursor:
            cursor.executemany(_percent(statement), rows)
            return int(cursor.rowcount)

    def pages(
        self, statement: str, values: Sequence[Any] = (), *, size: int = 1000
    ) -> Generator[list[Row], None, None]:
        """Run a statement; yield its rows page by page, by a cursor of the server."""
        cursor = self._connection.cursor(name=f"foldline_pages_{next(CURSOR_NUMBERS)}")
        self._page_cursors.append(cursor)
        with cursor:
            cursor.execute(_percent(statement), values)
            while page := cursor.fetchmany(size):
                yield page

    def close_pages(self) -> None:
        """End the pages that were not read to the end: to close them later would disturb another transaction."""
        while self._page_cursors:
            self._page_cursors.pop().close()

    def lock(self, number: LockNumber, name: str) -> None:
        """Lock a name until the transaction ends."""
        self._connection.execute(LOCK, (name, int(number)))


class PostgresDatabase:
    """The tables of one kind of store in a database."""

    is_shared = True
    dialect: Dialect = "postgres"

    def __init__(self, server: PostgresServer, schema: Schema) -> None:
        self.where = server.where
        self._server = server
        self._schema = schema
        for each in (schema, *schema.needs):
            if self.read(partial(self._version, each)) != each.version:
                self.write(partial(self._upgrade, each))

    def read(self, work: Callable[[PostgresStatements], T]) -> T:
        """Do work that changes nothing, on one snapshot."""

        def run(connection: PostgresConnection) -> T:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return _do(work, connection)

        return self._run(run)

    def write(
        self,
        work: Callable[[PostgresStatements], T],
        *,
        may_repeat: bool = True,
        is_durable: bool = True,
    ) -> T:
        """Do work in one transaction: all of it or nothing; always durable, for clients outlive their server."""

        def run(connection: PostgresConnection) -> T:
            left = seconds_left()
            if left is not None:  # the wait for locks of other writers ends with the call
                time = f"{max(1, int(left * 1000))}ms"
                connection.execute("SELECT set_config('lock_timeout', %s, true)", (time,))
            return _do(work, connection)

        return self._run(run, may_repeat=may_repeat)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Read all rows of one query, which is a snapshot by itself."""
        return self._run(lambda connection: PostgresStatements(connection).rows(statement, values))

    def pages(
        self, statement: str, values: Sequence[Any] = (), *, size: int = 1000
    ) -> Generator[list[Row], None, None]:
        """Read the rows of one query page by page, on one snapshot."""
        try:
            yield from self._server.each_page(
                lambda connection: PostgresStatements(connection).pages(
                    statement, values, size=size
                )
            )
        except StoreError as error:
            raise self._explained(error) from error.__cause__

    def maintain(self, *statements: str) -> None:
        """Run statements that cannot be in a transaction."""
        self._server.run_outside(statements)

    def close(self) -> None:
        """Close the idle connections; the next use opens new ones."""
        self._server.close()

    def _run(self, work: Callable[[PostgresConnection], T], *, may_repeat: bool = True) -> T:
        try:
            return self._server.run(work, may_repeat=may_repeat)
        except StoreError as error:
            raise self._explained(error) from error.__cause__

    def _explained(self, error: StoreError) -> StoreError:
        """Return the error for a table that is not there: a newer foldline may have renamed it meanwhile."""
        if getattr(error.__cause__, "sqlstate", None) not in NOT_THERE:
            return error
        for schema in (self._schema, *self._schema.needs):
            try:
                version = self._server.run(
                    lambda connection, schema=schema: self._version(  # type: ignore[misc]
                        schema, PostgresStatements(connection)
                    )
                )
            except StoreError:
                return error
            if version > schema.version:
                return newer_version(self.where, schema.kind, schema.version, version)
        return error

    def _version(self, schema: Schema, statements: PostgresStatements) -> int:
        return _written_version(statements, schema, self.where)

    def _upgrade(self, schema: Schema, statements: PostgresStatements) -> None:
        statements.run("SET LOCAL lock_timeout = 0")  # another process may take long to upgrade
        statements.run("SELECT pg_advisory_xact_lock(?)", (int(LockNumber.SCHEMA),))
        version = self._version(schema, statements)  # another process may have been first
        if not version:
            version = _unwritten_version(statements, schema)
        if version > schema.version:
            raise newer_version(self.where, schema.kind, schema.version, version)
        statements.run(CREATE_VERSIONS)
        scripts = [schema.create, schema.create_own.postgres]
        if version:
            scripts = [upgrade.postgres for upgrade in schema.upgrades[version - 1 :]]
        for script in scripts:
            run_script(statements, script)
        statements.run(SET_VERSION, (schema.kind, schema.version))


def _do(work: Callable[[PostgresStatements], T], connection: PostgresConnection) -> T:
    statements = PostgresStatements(connection)
    try:
        return work(statements)
    finally:
        statements.close_pages()


def has_tables(server: PostgresServer, schema: Schema) -> bool:
    """Return whether a database has the tables of a kind, of any version; nothing is created."""
    return bool(stored_version(server, schema))


def stored_version(server: PostgresServer, schema: Schema) -> int:
    """Return the version of the tables of a kind, 0 if there are none; nothing is created."""

    def look(connection: PostgresConnection) -> int:
        statements = PostgresStatements(connection)
        version = _written_version(statements, schema, server.where)
        return version or _unwritten_version(statements, schema)

    return server.run(look)


def _written_version(statements: PostgresStatements, schema: Schema, where: str) -> int:
    if statements.row(HAS_TABLE, ("foldline_schema",)) is None:
        return 0
    return read_version(statements.rows(READ_VERSION, (schema.kind,)), where, schema.kind)


def _unwritten_version(statements: PostgresStatements, schema: Schema) -> int:
    """Return the version of tables for which `foldline_schema` has no row; 0 for none."""
    if statements.row(HAS_TABLE, (schema.tables[0],)) is not None:
        return schema.unversioned
    return 0 if schema.find_elsewhere is None else schema.find_elsewhere(statements)


@lru_cache(maxsize=1024)
def _percent(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")
