"""`TableCache`: answers in a SQLite file or a PostgreSQL database, with one set of statements.

A damaged row is a miss.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresServer
from foldline._storage.schema import Schema, Upgrade
from foldline.caches._values import hashed_key, pack, unpack
from foldline.caches.base import RETURN_VAL_TYPE, BaseCache

__all__ = ["TableCache"]

SCHEMA: Final = Schema(
    kind="cache",
    tables=("foldline_answers",),
    create="""
    CREATE TABLE foldline_answers (key TEXT PRIMARY KEY, value TEXT NOT NULL, kept_at {real} NOT NULL){strict_keyed};
    CREATE INDEX foldline_answers_by_age ON foldline_answers (kept_at)
    """,
    upgrades=(
        Upgrade(
            sqlite="""
            ALTER TABLE answers RENAME TO foldline_answers;
            DROP INDEX answers_by_age;
            CREATE INDEX foldline_answers_by_age ON foldline_answers (kept_at)
            """
        ),
    ),
)
READ: Final = "SELECT value FROM foldline_answers WHERE key = ? AND kept_at >= ?"
WRITE: Final = (
    "INSERT INTO foldline_answers (key, value, kept_at) VALUES (?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, kept_at = excluded.kept_at"
)


class TableCache(BaseCache):
    """Answers in a table."""

    def __init__(self, place: str | Path | PostgresServer, *, ttl: float | None) -> None:
        self._database = open_database(place, SCHEMA)
        self._ttl = ttl

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the cached answer, or None."""
        oldest = time.time() - self._ttl if self._ttl is not None else 0
        rows = self._database.rows(READ, (hashed_key(prompt, llm_string), oldest))
        return unpack(rows[0][0]) if rows else None

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Store an answer."""
        row = hashed_key(prompt, llm_string), pack(return_val), time.time()
        self._database.write(lambda connection: connection.run(WRITE, row))

    def clear(self, **kwargs: object) -> None:
        """Delete everything."""
        self._database.write(lambda connection: connection.run("DELETE FROM foldline_answers"))

    def close(self) -> None:
        """Close the idle connections."""
        self._database.close()
