"""`TableByteStore`: bytes by key in a SQLite file or a PostgreSQL database, with one set of statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from foldline._storage.database import Row
from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresServer
from foldline._storage.schema import Schema, Upgrade
from foldline.stores.base import BaseStore

__all__ = ["TableByteStore"]

SCHEMA: Final = Schema(
    kind="store",
    tables=("foldline_pairs",),
    create="CREATE TABLE foldline_pairs (key {blob} PRIMARY KEY, value {blob} NOT NULL){strict_keyed}",
    upgrades=(Upgrade(sqlite="ALTER TABLE pairs RENAME TO foldline_pairs"),),
)
WRITE: Final = (
    "INSERT INTO foldline_pairs (key, value) VALUES (?, ?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
PAGE: Final = 1000
KEYS: Final = 500
"""The most keys of one query."""


class TableByteStore(BaseStore[str, bytes]):
    """Bytes in a table; one `mset` is written completely or not at all."""

    def __init__(self, place: str | Path | PostgresServer) -> None:
        self._database = open_database(place, SCHEMA)

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the values of some keys, None where there is none."""
        names = [_bytes(key) for key in keys]
        if len(names) <= KEYS:
            values = _values(self._database.rows, names)
        else:  # several queries, which see one snapshot
            values = self._database.read(lambda connection: _values(connection.rows, names))
        return [values.get(name) for name in names]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Store some values."""
        rows = {_bytes(key): bytes(value) for key, value in key_value_pairs}
        # In one order everywhere: writers that lock rows of PostgreSQL in other orders wait for one another for ever.
        self._database.write(lambda connection: connection.each(WRITE, sorted(rows.items())))

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete some keys."""
        rows = sorted({(_bytes(key),) for key in keys})
        statement = "DELETE FROM foldline_pairs WHERE key = ?"
        self._database.write(lambda connection: connection.each(statement, rows))

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Return the keys in order, or those that begin with a prefix."""
        begin = last = _bytes(prefix or "")
        compare = ">="
        while True:
            # By range, not by LIKE: a prefix may contain % or _. Page by page: others may write meanwhile.
            query = f"SELECT key FROM foldline_pairs WHERE key {compare} ? ORDER BY key LIMIT ?"
            rows = self._database.rows(query, (last, PAGE))
            for (key,) in rows:
                if not key.startswith(begin):
                    return
                yield key.decode("utf-8", "surrogatepass")
            if len(rows) < PAGE:
                return
            last, compare = rows[-1][0], ">"

    def close(self) -> None:
        """Close the idle connections."""
        self._database.close()


def _values(
    rows: Callable[[str, list[bytes]], list[Row]], names: list[bytes]
) -> dict[bytes, bytes]:
    values: dict[bytes, bytes] = {}
    for start in range(0, len(names), KEYS):
        part = names[start : start + KEYS]
        marks = ", ".join("?" * len(part))
        values.update(rows(f"SELECT key, value FROM foldline_pairs WHERE key IN ({marks})", part))
    return values


def _bytes(key: str) -> bytes:
    """Return a key as bytes: not every text can be stored as text, and bytes have one order in all databases."""
    return key.encode("utf-8", "surrogatepass")
