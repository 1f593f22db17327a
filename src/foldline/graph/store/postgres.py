"""`PostgresStore`: values in PostgreSQL (extra `postgres`), for programs on several machines."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import astuple
from typing import Self

from foldline._storage.postgres import PostgresConnection, PostgresServer
from foldline.graph.store.base import IndexConfig, TTLConfig
from foldline.graph.store.engine import FIELDS, Row, RowStore

__all__ = ["PostgresStore"]

SCHEMA = """
SELECT pg_advisory_xact_lock(7364504);
CREATE TABLE IF NOT EXISTS foldline_items (
    namespace TEXT COLLATE "C" NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL, until TEXT, vectors TEXT, ttl DOUBLE PRECISION, PRIMARY KEY (namespace, key)
);
DO $$ BEGIN
    -- Only where it is missing: adding a column locks the table.
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'foldline_items'::regclass AND attname = 'ttl') THEN
        ALTER TABLE foldline_items ADD COLUMN ttl DOUBLE PRECISION;
    END IF;
END $$
"""
LAST_CHARACTER = "\U0010ffff"


class PostgresStore(RowStore):
    """Stores values in a PostgreSQL database."""

    def __init__(
        self,
        conninfo: str | PostgresServer,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        """Connect; the table is created if it does not exist."""
        super().__init__(index, ttl)
        self._server = (
            conninfo if isinstance(conninfo, PostgresServer) else PostgresServer(conninfo, SCHEMA)
        )

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
        def work(connection: PostgresConnection) -> Row | None:
            row = connection.execute(
                f"SELECT {FIELDS} FROM foldline_items WHERE namespace = %s AND key = %s",
                (namespace, key),
            ).fetchone()
            return Row(*row) if row else None

        return self._server.run(work)

    def _write(self, rows: list[Row], deleted: list[tuple[str, str]]) -> None:
        def work(connection: PostgresConnection) -> None:
            for row in rows:
                connection.execute(
                    f"INSERT INTO foldline_items ({FIELDS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s) "
                    "ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, "
                    "updated_at = excluded.updated_at, until = excluded.until, "
                    "vectors = excluded.vectors, ttl = excluded.ttl",
                    astuple(row),
                )
            for item_key in deleted:
                connection.execute(
                    "DELETE FROM foldline_items WHERE namespace = %s AND key = %s", item_key
                )

        self._server.run(work)

    def _renew(self, untils: list[tuple[Row, str]]) -> None:
        def work(connection: PostgresConnection) -> None:
            for row, until in untils:
                connection.execute(
                    "UPDATE foldline_items SET until = %s WHERE namespace = %s AND key = %s AND until = %s",
                    (until, row.namespace, row.key, row.until),
                )

        self._server.run(work)

    def _sweep(self, now: str) -> int:
        def work(connection: PostgresConnection) -> int:
            deleted = connection.execute(
                'DELETE FROM foldline_items WHERE until COLLATE "C" <= %s', (now,)
            )
            count: int = deleted.rowcount
            return count

        return self._server.run(work)

    def _under(self, prefix: str) -> Iterable[Row]:
        def work(connection: PostgresConnection) -> list[Row]:
            rows = connection.execute(
                f"SELECT {FIELDS} FROM foldline_items WHERE namespace >= %s AND namespace < %s",
                (prefix, prefix + LAST_CHARACTER),
            ).fetchall()
            return [Row(*row) for row in rows]

        return self._server.run(work)

    def _namespaces(self, now: str) -> list[str]:
        def work(connection: PostgresConnection) -> list[str]:
            rows = connection.execute(
                "SELECT DISTINCT namespace FROM foldline_items "
                'WHERE until IS NULL OR until COLLATE "C" > %s',
                (now,),
            ).fetchall()
            return [row[0] for row in rows]

        return self._server.run(work)

    def close(self) -> None:
        """Close connections."""
        self._server.close()
