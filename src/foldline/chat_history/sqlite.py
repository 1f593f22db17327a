"""`SQLiteChatMessageHistory`: conversations in one SQLite file; appends are atomic and survive a killed process."""

from __future__ import annotations

import time
from pathlib import Path

from foldline._storage.sqlite import Database
from foldline.chat_history._stored import StoredChatMessageHistory

__all__ = ["SQLiteChatMessageHistory"]

MIGRATIONS = [
    """
    CREATE TABLE messages (
        place INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, value TEXT NOT NULL, added_at REAL NOT NULL
    ) STRICT;
    CREATE INDEX messages_by_session ON messages (session, place)
    """
]


class SQLiteChatMessageHistory(StoredChatMessageHistory):
    """One conversation in a SQLite file.

    ```python
    import tempfile
    from foldline.chat_history import SQLiteChatMessageHistory

    path = tempfile.mkdtemp() + "/chats.db"
    SQLiteChatMessageHistory("ada", path).add_user_message("hi")
    print(SQLiteChatMessageHistory("ada", path).messages[0].text)
    #> hi
    ```
    """

    def __init__(self, session_id: str, path: str | Path = "foldline-chats.db") -> None:
        """Open a conversation in a file, made where it is not there."""
        super().__init__(session_id)
        self._database = Database(path, "history", MIGRATIONS)

    def _rows(self) -> list[tuple[str | bytes, str]]:
        rows = self._database.rows(
            "SELECT value, place FROM messages WHERE session = ? ORDER BY place", (self._session,)
        )
        return [(value, f"{self._database.path}: message {place}") for value, place in rows]

    def _append(self, texts: list[str]) -> None:
        now = time.time()
        with self._database.write() as connection:
            connection.executemany(
                "INSERT INTO messages (session, value, added_at) VALUES (?, ?, ?)",
                [(self._session, text, now) for text in texts],
            )

    def clear(self) -> None:
        """Forget this conversation; the others of the file stay."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM messages WHERE session = ?", (self._session,))

    def drop_oldest(self, count: int) -> None:
        """Forget the oldest messages of this conversation."""
        with self._database.write() as connection:
            connection.execute(
                "DELETE FROM messages WHERE place IN "
                "(SELECT place FROM messages WHERE session = ? ORDER BY place LIMIT ?)",
                (self._session, count),
            )

    def sessions(self) -> list[tuple[str, int, float]]:
        """Return (session, number of messages, time of the last) of every conversation in the file, newest first."""
        rows = self._database.rows(
            "SELECT session, count(*), max(added_at) FROM messages GROUP BY session ORDER BY max(added_at) DESC"
        )
        return [(session, count, added_at) for session, count, added_at in rows]

    def close(self) -> None:
        """Close the file."""
        self._database.close()
