"""`TableRecordManager`: records in a SQLite file or a PostgreSQL database, with one set of statements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from foldline._storage.database import Connection
from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresServer
from foldline._storage.schema import Schema, Upgrade
from foldline.indexing.base import Groups, RecordManager, check_update

__all__ = ["TableRecordManager"]

SCHEMA: Final = Schema(
    kind="index",
    tables=("foldline_records",),
    create="""
    CREATE TABLE foldline_records (
        namespace {blob} NOT NULL, key {blob} NOT NULL, source {blob}, seen {real} NOT NULL,
        PRIMARY KEY (namespace, key)
    ){strict_keyed};
    CREATE INDEX foldline_records_by_age ON foldline_records (namespace, seen);
    CREATE INDEX foldline_records_by_source ON foldline_records (namespace, source, seen)
    """,
    upgrades=(
        Upgrade(
            sqlite="""
            ALTER TABLE records RENAME TO foldline_records;
            DROP INDEX records_by_age;
            DROP INDEX records_by_source;
            CREATE INDEX foldline_records_by_age ON foldline_records (namespace, seen);
            CREATE INDEX foldline_records_by_source ON foldline_records (namespace, source, seen)
            """
        ),
    ),
)
WRITE: Final = (
    "INSERT INTO foldline_records (namespace, key, source, seen) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (namespace, key) DO UPDATE SET seen = excluded.seen, "
    "source = COALESCE(excluded.source, foldline_records.source)"
)
KEYS: Final = 500
"""The most keys of one query."""


class TableRecordManager(RecordManager):
    """Records in a table."""

    def __init__(self, namespace: str, place: str | Path | PostgresServer) -> None:
        super().__init__(namespace)
        self._name = _bytes(namespace)
        self._database = open_database(place, SCHEMA)

    def create_schema(self) -> None:
        """Do nothing: the tables are created when the place is opened."""

    def update(
        self,
        keys: Sequence[str],
        *,
        group_ids: Groups = None,
        time_at_least: float | None = None,
    ) -> None:
        """Record that keys were seen now; raise if the clock is before `time_at_least`."""
        now = self.get_time()
        groups = check_update(keys, group_ids, time_at_least, now)
        rows = [
            (self._name, _bytes(key), None if group is None else _bytes(group), now)
            for key, group in zip(keys, groups, strict=True)
        ]
        # In one order everywhere: writers that lock rows of PostgreSQL in other orders wait for one another for ever.
        rows.sort(key=lambda row: row[1])
        self._database.write(lambda connection: connection.each(WRITE, rows))

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Return for each key whether it has a record."""
        names = [_bytes(key) for key in keys]

        def read(connection: Connection) -> set[bytes]:
            known: set[bytes] = set()
            for start in range(0, len(names), KEYS):
                part = names[start : start + KEYS]
                marks = ", ".join("?" * len(part))
                query = f"SELECT key FROM foldline_records WHERE namespace = ? AND key IN ({marks})"
                known.update(key for (key,) in connection.rows(query, (self._name, *part)))
            return known

        known = self._database.read(read)
        return [name in known for name in names]

    def list_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return the keys last seen before or after a time, of some groups; the oldest first."""
        bounds = {"seen < ?": before, "seen > ?": after}
        sources = (
            [None] if group_ids is None else [_bytes(group) for group in dict.fromkeys(group_ids)]
        )

        def read(connection: Connection) -> list[str]:
            keys: list[str] = []
            for source in sources:
                remaining = None if limit is None else limit - len(keys)
                if remaining == 0:
                    break
                query, values = _list_query(self._name, {**bounds, "source = ?": source}, remaining)
                keys += [_text(key) for (key,) in connection.rows(query, values)]
            return keys

        return self._database.read(read)

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the records of keys."""
        rows = [(self._name, name) for name in sorted({_bytes(key) for key in keys})]
        statement = "DELETE FROM foldline_records WHERE namespace = ? AND key = ?"
        self._database.write(lambda connection: connection.each(statement, rows))

    def close(self) -> None:
        """Close the idle connections."""
        self._database.close()


def _list_query(
    namespace: bytes, conditions: dict[str, Any], limit: int | None
) -> tuple[str, list[Any]]:
    """Return a query of keys and its values; a condition whose value is None is left out."""
    bound = {
        "namespace = ?": namespace,
        **{name: value for name, value in conditions.items() if value is not None},
    }
    query = f"SELECT key FROM foldline_records WHERE {' AND '.join(bound)} ORDER BY seen, key"
    values = list(bound.values())
    return (query, values) if limit is None else (f"{query} LIMIT ?", [*values, limit])


def _bytes(text: str) -> bytes:
    """Return a text as bytes: not every text can be stored as text, and bytes have one order in all databases."""
    return text.encode("utf-8", "surrogatepass")


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")
