"""`SqliteStore`: values in one SQLite file, shared by the processes of a machine."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Self

from foldline._storage.sqlite import Database
from foldline.graph.store.base import IndexConfig, TTLConfig
from foldline.graph.store.engine import FIELDS, Row, RowStore

__all__ = ["SqliteStore"]

MIGRATIONS = (
    "CREATE TABLE items (namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created_at TEXT NOT NULL, "
    "updated_at TEXT NOT NULL, until TEXT, vectors TEXT, PRIMARY KEY (namespace, key)) WITHOUT ROWID",
    "ALTER TABLE items ADD COLUMN ttl REAL",
)
LAST_CHARACTER = "\U0010ffff"


class SqliteStore(RowStore):
    """Stores values in an SQLite file; a `batch` is written atomically."""

    def __init__(
        self,
        path: str | Path,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        """Open the file; it is created if it does not exist."""
        super().__init__(index, ttl)
        self._database = Database(path, "items", MIGRATIONS)

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
        rows = self._database.rows(
            f"SELECT {FIELDS} FROM items WHERE namespace = ? AND key = ?", (namespace, key)
        )
        return Row(*rows[0]) if rows else None

    def _write(self, rows: list[Row], deleted: list[tuple[str, str]]) -> None:
        with self._database.write() as connection:
            connection.executemany(
                f"INSERT INTO items ({FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, "
                "updated_at = excluded.updated_at, until = excluded.until, "
                "vectors = excluded.vectors, ttl = excluded.ttl",
                [astuple(row) for row in rows],
            )
            connection.executemany("DELETE FROM items WHERE namespace = ? AND key = ?", deleted)

    def _renew(self, untils: list[tuple[Row, str]]) -> None:
        with self._database.write() as connection:
            connection.executemany(
                "UPDATE items SET until = ? WHERE namespace = ? AND key = ? AND until = ?",
                [(until, row.namespace, row.key, row.until) for row, until in untils],
            )

    def _sweep(self, now: str) -> int:
        with self._database.write() as connection:
            return connection.execute("DELETE FROM items WHERE until <= ?", (now,)).rowcount

    def _under(self, prefix: str) -> Iterable[Row]:
        rows = self._database.rows(
            f"SELECT {FIELDS} FROM items WHERE namespace >= ? AND namespace < ?",
            (prefix, prefix + LAST_CHARACTER),
        )
        return [Row(*row) for row in rows]

    def _namespaces(self, now: str) -> list[str]:
        rows = self._database.rows(
            "SELECT DISTINCT namespace FROM items WHERE until IS NULL OR until > ?", (now,)
        )
        return [row[0] for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._database.close()
