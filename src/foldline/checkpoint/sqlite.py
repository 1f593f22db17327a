"""`SqliteSaver`: threads in one SQLite file; several processes may share it."""

from __future__ import annotations

from pathlib import Path

from foldline._storage.sqlite import Database
from foldline.checkpoint.base import AsyncOpened, Entry, StoredSaver, check_head

__all__ = ["AsyncSqliteSaver", "SqliteSaver"]

MIGRATIONS = (
    """
    CREATE TABLE checkpoints (
        place INTEGER PRIMARY KEY AUTOINCREMENT,
        thread TEXT NOT NULL,
        namespace TEXT NOT NULL,
        id TEXT NOT NULL,
        parent TEXT,
        body TEXT NOT NULL,
        added_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
    );
    CREATE INDEX checkpoints_by_thread ON checkpoints (thread, namespace, place)
    """,
)
READ = "SELECT id, parent, body FROM checkpoints WHERE thread = ? AND namespace = ? ORDER BY place"
HEAD = "SELECT id FROM checkpoints WHERE thread = ? AND namespace = ? ORDER BY place DESC LIMIT 1"
WRITE = "INSERT INTO checkpoints (thread, namespace, id, parent, body) VALUES (?, ?, ?, ?, ?)"


class SqliteSaver(StoredSaver):
    """Stores threads in a SQLite file.

    ```python
    from foldline.checkpoint import SqliteSaver

    saver = SqliteSaver(":memory:")
    print(saver.read("thread-1", ""))
    #> []
    ```
    """

    def __init__(self, path: str | Path = "agents.db") -> None:
        """Open the file, or create it."""
        self._database = Database(path, "checkpoints", MIGRATIONS)

    def read(self, thread_id: str, namespace: str) -> list[Entry]:
        """Return all entries of one namespace of a thread, the oldest first."""
        return [Entry(*row) for row in self._database.rows(READ, (thread_id, namespace))]

    def append(
        self, thread_id: str, namespace: str, entries: list[Entry], *, after: str | None
    ) -> None:
        """Write entries in one transaction."""
        with self._database.write() as connection:
            head = connection.execute(HEAD, (thread_id, namespace)).fetchone()
            check_head(thread_id, head[0] if head else None, after)
            connection.executemany(
                WRITE,
                [(thread_id, namespace, entry.id, entry.parent, entry.body) for entry in entries],
            )

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM checkpoints WHERE thread = ?", (thread_id,))

    def close(self) -> None:
        """Close the idle connections."""
        self._database.close()


class AsyncSqliteSaver(AsyncOpened, SqliteSaver):
    """`SqliteSaver` under LangGraph's name for async programs; one saver serves both here."""
