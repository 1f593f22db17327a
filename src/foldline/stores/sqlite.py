"""`SQLiteStore`: bytes by key in one SQLite file, shared by the processes of a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from foldline._storage.sqlite import Database
from foldline.stores.base import BaseStore

__all__ = ["SQLiteStore"]

MIGRATIONS = [
    "CREATE TABLE pairs (key BLOB PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID"
]
PAGE = 1000


class SQLiteStore(BaseStore[str, bytes]):
    """Stores bytes in a SQLite file; one `mset` is written completely or not at all.

    ```python
    import tempfile
    from foldline.stores import SQLiteStore

    store = SQLiteStore(tempfile.mkdtemp() + "/store.db")
    store.mset([("a", b"1")])
    print(store.mget(["a", "b"]))
    #> [b'1', None]
    ```
    """

    def __init__(self, path: str | Path) -> None:
        """Open or make the file."""
        self._database = Database(path, "store", MIGRATIONS)

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the values of some keys, None where there is none."""
        with self._database.read() as connection:
            rows = [
                connection.execute(
                    "SELECT value FROM pairs WHERE key = ?", (_bytes(key),)
                ).fetchone()
                for key in keys
            ]
        return [row[0] if row else None for row in rows]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Store some values."""
        with self._database.write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO pairs (key, value) VALUES (?, ?)",
                [(_bytes(key), bytes(value)) for key, value in key_value_pairs],
            )

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete some keys."""
        with self._database.write() as connection:
            connection.executemany(
                "DELETE FROM pairs WHERE key = ?", [(_bytes(key),) for key in keys]
            )

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Return the keys in order, or those that begin with a prefix."""
        begin, last = _bytes(prefix or ""), None
        while True:
            # By range, not by LIKE: a prefix may contain % or _. Page by page: others may write meanwhile.
            rows = self._database.rows(
                "SELECT key FROM pairs WHERE key >= ? AND (? IS NULL OR key > ?) ORDER BY key LIMIT ?",
                (begin, last, last, PAGE),
            )
            for (key,) in rows:
                if not key.startswith(begin):
                    return
                yield key.decode("utf-8", "surrogatepass")
            if len(rows) < PAGE:
                return
            last = rows[-1][0]

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
