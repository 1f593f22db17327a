"""`PostgresDatabase`: the tables of one kind of store in a PostgreSQL database (extra `postgres`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeVar

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
    statements_of,
)
from foldline.exceptions import StoreError

__all__ = ["PostgresDatabase"]

T = TypeVar("T")
HAS_TABLE: Final = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?"
"""Not `to_regclass`, which does not see at once what another session has made."""
NOT_THERE: Final = ("42P01", "42703")
"""The codes of PostgreSQL for a table and a column that are not there."""
READ_VERSION: Final = "SELECT version FROM foldline_schema WHERE kind = ?"


class PostgresStatements:
    """Statements with `?` inside one transaction."""

    dialect: Dialect = "postgres"

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

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

    def each(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of some rows of values."""
        if rows:
            with self._connection.cursor() as cursor:
                cursor.executemany(_percent(statement), rows)

    def pages(
        self, statement: str, values: Sequence[Any] = (), *, size: int = 1000
    ) -> Iterator[list[Row]]:
        """Run a statement; yield its rows page by page, by a cursor of the server."""
        with self._connection.cursor(name="foldline_pages") as cursor:
            cursor.execute(_percent(statement), values)
            while page := cursor.fetchmany(size):
                yield page

    def lock(self, number: LockNumber, name: str) -> None:
        """Lock a name until the transaction ends."""
        self._connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))", (name, int(number))
        )


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
            return work(PostgresStatements(connection))

        return self._run(run)

    def write(self, work: Callable[[PostgresStatements], T], *, may_repeat: bool = True) -> T:
        """Do work in one transaction: all of it or nothing."""
        return self._run(
            lambda connection: work(PostgresStatements(connection)), may_repeat=may_repeat
        )

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Read all rows of one query, which is a snapshot by itself."""
        return self._run(lambda connection: PostgresStatements(connection).rows(statement, values))

    def pages(
        self, statement: str, values: Sequence[Any] = (), *, size: int = 1000
    ) -> Iterator[list[Row]]:
        """Read the rows of one query page by page, on one snapshot."""
        try:
            yield from self._server.each_page(
                lambda connection: PostgresStatements(connection).pages(
                    statement, values, size=size
                )
            )
        except StoreError as error:
            raise self._explained(error) from error.__cause__

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
                return newer_version(self.where, schema, version)
        return error

    def _version(self, schema: Schema, statements: PostgresStatements) -> int:
        if statements.row(HAS_TABLE, ("foldline_schema",)) is None:
            return 0
        rows = statements.rows(READ_VERSION, (schema.kind,))
        return read_version(rows, self.where, schema.kind)

    def _upgrade(self, schema: Schema, statements: PostgresStatements) -> None:
        statements.run("SET LOCAL lock_timeout = 0")  # another process may take long to upgrade
        statements.run("SELECT pg_advisory_xact_lock(?)", (int(LockNumber.SCHEMA),))
        version = self._version(schema, statements)  # another process may have been first
        if not version and statements.row(HAS_TABLE, (schema.tables[0],)) is not None:
            version = schema.unversioned
        if version > schema.version:
            raise newer_version(self.where, schema, version)
        statements.run(CREATE_VERSIONS)
        scripts = [schema.create]
        if version:
            scripts = [upgrade.postgres for upgrade in schema.upgrades[version - 1 :]]
        for script in scripts:
            for statement in statements_of(script, "postgres"):
                statements.run(statement)
        statements.run(SET_VERSION, (schema.kind, schema.version))


@lru_cache(maxsize=1024)
def _percent(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")
