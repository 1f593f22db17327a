"""`SQLiteRecordManager`: records in a SQLite file, shared by the processes of a machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from foldline._storage.sqlite import Database
from foldline.indexing.base import Groups, RecordManager, check_update

__all__ = ["SQLiteRecordManager"]

MIGRATIONS = [
    """
    CREATE TABLE records (
        namespace BLOB NOT NULL, key BLOB NOT NULL, source BLOB, seen REAL NOT NULL,
        PRIMARY KEY (namespace, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX records_by_age ON records (namespace, seen);
    CREATE INDEX records_by_source ON records (namespace, source, seen)
    """
]
LIST = """
SELECT key FROM records WHERE namespace = ? AND (? IS NULL OR seen < ?) AND (? IS NULL OR seen > ?)
AND (? IS NULL OR source = ?) ORDER BY seen, key LIMIT ?
"""


class SQLiteRecordManager(RecordManager):
    """Records in a SQLite file.

    ```python
    import tempfile
    from foldline.indexing import SQLiteRecordManager

    manager = SQLiteRecordManager("docs", tempfile.mkdtemp() + "/records.db")
    manager.update(["a"], group_ids=["page 1"])
    print(manager.exists(["a", "b"]))
    #> [True, False]
    ```
    """

    def __init__(self, namespace: str, path: str | Path) -> None:
        """Open or make the file."""
        super().__init__(namespace)
        self._name = _bytes(namespace)
        self._database = Database(path, "index", MIGRATIONS)

    def create_schema(self) -> None:
        """Do nothing: the tables are created when the file is opened."""

    def get_time(self) -> float:
        """Return the time: the file is on this machine, so its clock is this one."""
        return time.time()

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
        with self._database.write() as connection:
            connection.executemany(
                "INSERT INTO records (namespace, key, source, seen) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (namespace, key) DO UPDATE SET seen = excluded.seen, "
                "source = COALESCE(excluded.source, source)",
                rows,
            )

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Return for each key whether it has a record."""
        with self._database.read() as connection:
            return [
                connection.execute(
                    "SELECT 1 FROM records WHERE namespace = ? AND key = ?",
                    (self._name, _bytes(key)),
                ).fetchone()
                is not None
                for key in keys
            ]

    def list_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return the keys last seen before or after a time, of some groups; the oldest first."""
        sources = (
            [None] if group_ids is None else [_bytes(group) for group in dict.fromkeys(group_ids)]
        )
        keys: list[str] = []
        for source in sources:
            remaining = -1 if limit is None else limit - len(keys)
            if remaining == 0:
                break
            bound = (self._name, before, before, after, after, source, source, remaining)
            keys += [
                key.decode("utf-8", "surrogatepass") for (key,) in self._database.rows(LIST, bound)
            ]
        return keys

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the records of keys."""
        with self._database.write() as connection:
            connection.executemany(
                "DELETE FROM records WHERE namespace = ? AND key = ?",
                [(self._name, _bytes(key)) for key in keys],
            )

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
