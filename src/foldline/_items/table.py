"""`TableStore`: values in a SQLite file or a PostgreSQL database, with one set of statements."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import astuple
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, Self

from foldline._items.base import IndexConfig, TTLConfig
from foldline._items.engine import FIELDS, Row, RowStore
from foldline._storage.database import Connection
from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresServer
from foldline._storage.schema import LockNumber, Schema, Upgrade

__all__ = ["TableStore"]

SCHEMA: Final = Schema(
    kind="items",
    tables=("foldline_items",),
    create="""
    CREATE TABLE foldline_items (
        namespace {sorted_text} NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL, until {sorted_text}, vectors TEXT, ttl {real}, PRIMARY KEY (namespace, key)
    ){keyed}
    """,
    upgrades=(
        Upgrade(
            sqlite="ALTER TABLE items ADD COLUMN ttl REAL",
            postgres="ALTER TABLE foldline_items ADD COLUMN IF NOT EXISTS ttl DOUBLE PRECISION",
        ),
        Upgrade(
            sqlite="ALTER TABLE items RENAME TO foldline_items",
            postgres='ALTER TABLE foldline_items ALTER COLUMN until TYPE TEXT COLLATE "C"',
        ),
    ),
)
READ: Final = f"SELECT {FIELDS} FROM foldline_items WHERE namespace = ? AND key = ?"
WRITE: Final = (
    f"INSERT INTO foldline_items ({FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, "
    "updated_at = excluded.updated_at, until = excluded.until, vectors = excluded.vectors, "
    "ttl = excluded.ttl"
)
DELETE: Final = "DELETE FROM foldline_items WHERE namespace = ? AND key = ?"
DELETE_EXPIRED: Final = "DELETE FROM foldline_items WHERE until <= ?"
RENEW: Final = "UPDATE foldline_items SET until = ? WHERE namespace = ? AND key = ? AND until = ?"
UNDER: Final = f"SELECT {FIELDS} FROM foldline_items WHERE namespace >= ? AND namespace < ?"
NAMESPACES: Final = "SELECT DISTINCT namespace FROM foldline_items WHERE until IS NULL OR until > ?"
LAST_CHARACTER: Final = "\U0010ffff"


class TableStore(RowStore):
    """Values in a table; a `batch` is written atomically."""

    def __init__(
        self,
        place: str | Path | PostgresServer,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        """Open the place; the table is created if it does not exist."""
        super().__init__(index, ttl)
        self._database = open_database(place, SCHEMA)
        self._place = self._database.where

    @classmethod
    @contextmanager
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> Generator[Self, None, None]:
        """Open a store for a `with` block."""
        store = cls(conn_string, index=index, ttl=ttl)
        try:
            yield store
        finally:
            store.close()

    def _read(self, namespace: str, key: str) -> Row | None:
        rows = self._database.rows(READ, (namespace, key))
        return Row(*rows[0]) if rows else None

    def _write(self, rows: list[Row], deleted: list[tuple[str, str]]) -> None:
        # In one order everywhere: writers that lock rows of PostgreSQL in other orders wait for one another for ever.
        changes = [(row.namespace, row.key, WRITE, astuple(row)) for row in rows]
        changes += [(*item_key, DELETE, item_key) for item_key in deleted]
        changes.sort(key=itemgetter(0, 1))

        namespaces = sorted({change[0] for change in changes}) if rows and deleted else []

        def work(connection: Connection) -> None:
            # Two such batches would not see, and not delete, what the other is about to put.
            for namespace in namespaces:
                connection.lock(LockNumber.ITEMS, namespace)
            for statement, part in groupby(changes, key=itemgetter(2)):
                connection.each(statement, [values for _, _, _, values in part])

        self._database.write(work)

    def _renew(self, untils: list[tuple[Row, str]]) -> None:
        rows = [(until, row.namespace, row.key, row.until) for row, until in untils]
        rows.sort(key=lambda row: row[1:3])
        self._database.write(lambda connection: connection.each(RENEW, rows))

    def _sweep(self, now: str) -> int:
        return self._database.write(lambda connection: connection.run(DELETE_EXPIRED, (now,)))

    def _under(self, prefix: str) -> Iterable[Row]:
        rows = self._database.rows(UNDER, (prefix, prefix + LAST_CHARACTER))
        return [Row(*row) for row in rows]

    def _namespaces(self, now: str) -> list[str]:
        return [namespace for (namespace,) in self._database.rows(NAMESPACES, (now,))]

    def close(self) -> None:
        """Close the idle connections."""
        self._database.close()
