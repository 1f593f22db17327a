"""`TableChatMessageHistory`: conversations in a SQLite file or a PostgreSQL database, with one set of statements."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from foldline._storage.database import Connection
from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresServer
from foldline._storage.schema import LockNumber, Schema, Upgrade
from foldline.chat_history._stored import StoredChatMessageHistory

__all__ = ["TableChatMessageHistory"]

SCHEMA: Final = Schema(
    kind="history",
    tables=("foldline_messages",),
    create="""
    CREATE TABLE foldline_messages (
        place {number}, session TEXT NOT NULL, value TEXT NOT NULL, added_at {real} NOT NULL
    ){strict};
    CREATE INDEX foldline_messages_by_session ON foldline_messages (session, place)
    """,
    upgrades=(
        Upgrade(
            sqlite="""
            ALTER TABLE messages RENAME TO foldline_messages;
            DROP INDEX messages_by_session;
            CREATE INDEX foldline_messages_by_session ON foldline_messages (session, place)
            """,
            postgres="""
            ALTER TABLE foldline_messages ALTER COLUMN added_at DROP DEFAULT;
            ALTER TABLE foldline_messages ALTER COLUMN added_at TYPE DOUBLE PRECISION
                USING extract(epoch FROM added_at)
            """,
        ),
    ),
)
DELETE_ALL: Final = "DELETE FROM foldline_messages WHERE session = ?"
DELETE_OLDEST: Final = (
    "DELETE FROM foldline_messages WHERE place IN "
    "(SELECT place FROM foldline_messages WHERE session = ? ORDER BY place LIMIT ?)"
)


class TableChatMessageHistory(StoredChatMessageHistory):
    """One conversation in a table."""

    def __init__(self, session_id: str, place: str | Path | PostgresServer) -> None:
        super().__init__(session_id)
        self._database = open_database(place, SCHEMA)

    def _rows(self) -> list[tuple[str | bytes, str]]:
        rows = self._database.rows(
            "SELECT value, place FROM foldline_messages WHERE session = ? ORDER BY place",
            (self._session,),
        )
        return [(value, f"{self._database.where}: message {place}") for value, place in rows]

    def _append(self, texts: list[str]) -> None:
        now = time.time()
        rows = [(self._session, text, now) for text in texts]

        def write(connection: Connection) -> None:
            # One writer at a time per session, so that the places of one append stand together.
            connection.lock(LockNumber.HISTORY, self._session)
            connection.each(
                "INSERT INTO foldline_messages (session, value, added_at) VALUES (?, ?, ?)", rows
            )

        self._database.write(write, may_repeat=False)

    def clear(self) -> None:
        """Forget this conversation; the others of the place stay."""
        self._database.write(lambda connection: connection.run(DELETE_ALL, (self._session,)))

    def drop_oldest(self, count: int) -> None:
        """Forget the oldest messages of this conversation."""
        values = (self._session, count)
        self._database.write(
            lambda connection: connection.run(DELETE_OLDEST, values), may_repeat=False
        )

    def sessions(self) -> list[tuple[str, int, float]]:
        """Return (session, number of messages, time of the last) of every conversation here, newest first."""
        rows = self._database.rows(
            "SELECT session, count(*), max(added_at) FROM foldline_messages GROUP BY session "
            "ORDER BY max(added_at) DESC"
        )
        return [(session, count, added_at) for session, count, added_at in rows]

    def close(self) -> None:
        """Close the idle connections."""
        self._database.close()
