"""`SQLiteCache`: answers in one file, shared by the processes of a machine. A damaged row is a miss."""

from __future__ import annotations

import time
from pathlib import Path

from foldline._storage.sqlite import Database
from foldline.caches._values import hashed_key, pack, unpack
from foldline.caches.base import RETURN_VAL_TYPE, BaseCache

__all__ = ["SQLiteCache"]

MIGRATIONS = [
    """
    CREATE TABLE answers (key TEXT PRIMARY KEY, value TEXT NOT NULL, kept_at REAL NOT NULL) STRICT, WITHOUT ROWID;
    CREATE INDEX answers_by_age ON answers (kept_at)
    """
]


class SQLiteCache(BaseCache):
    """Stores answers in a SQLite file.

    ```python
    import tempfile
    from foldline.caches import SQLiteCache
    from foldline.outputs import Generation

    cache = SQLiteCache(tempfile.mkdtemp() + "/answers.db")
    cache.update("prompt", "model", [Generation(text="hello")])
    print(cache.lookup("prompt", "model")[0].text)
    #> hello
    ```
    """

    def __init__(
        self, database_path: str | Path = ".foldline.db", *, ttl: float | None = None
    ) -> None:
        """Open or create the file; answers older than `ttl` seconds are ignored."""
        self._database = Database(database_path, "cache", MIGRATIONS)
        self._ttl = ttl

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the cached answer, or None."""
        oldest = time.time() - self._ttl if self._ttl is not None else 0
        rows = self._database.rows(
            "SELECT value FROM answers WHERE key = ? AND kept_at >= ?",
            (hashed_key(prompt, llm_string), oldest),
        )
        return unpack(rows[0][0]) if rows else None

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Store an answer."""
        with self._database.write() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO answers (key, value, kept_at) VALUES (?, ?, ?)",
                (hashed_key(prompt, llm_string), pack(return_val), time.time()),
            )

    def clear(self, **kwargs: object) -> None:
        """Delete everything."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM answers")

    def close(self) -> None:
        """Close the file."""
        self._database.close()
