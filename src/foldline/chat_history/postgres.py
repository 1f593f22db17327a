"""`PostgresChatMessageHistory`: conversations in PostgreSQL (extra `postgres`); appends are atomic, order is kept."""

from __future__ import annotations

from foldline._storage.postgres import PostgresConnection, PostgresServer
from foldline.chat_history._stored import StoredChatMessageHistory

__all__ = ["PostgresChatMessageHistory"]

SCHEMA = """
SELECT pg_advisory_xact_lock(7364502);
CREATE TABLE IF NOT EXISTS foldline_messages (
    place BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session TEXT NOT NULL,
    value TEXT NOT NULL,
    added_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS foldline_messages_by_session ON foldline_messages (session, place)
"""
"""The lock keeps two processes from making the table at once, which PostgreSQL answers with an error."""


class PostgresChatMessageHistory(StoredChatMessageHistory):
    """One conversation in PostgreSQL."""

    def __init__(
        self, session_id: str, conninfo: str | PostgresServer = "postgresql://127.0.0.1/postgres"
    ) -> None:
        """Open a conversation; the table is made where it is not there. Histories may share one server object."""
        super().__init__(session_id)
        self._server = (
            conninfo if isinstance(conninfo, PostgresServer) else PostgresServer(conninfo, SCHEMA)
        )

    def _rows(self) -> list[tuple[str | bytes, str]]:
        def read(connection: PostgresConnection) -> list[tuple[str, int]]:
            rows: list[tuple[str, int]] = connection.execute(
                "SELECT value, place FROM foldline_messages WHERE session = %s ORDER BY place",
                (self._session,),
            ).fetchall()
            return rows

        return [
            (value, f"foldline_messages: place {place}") for value, place in self._server.run(read)
        ]

    def _append(self, texts: list[str]) -> None:
        def write(connection: PostgresConnection) -> None:
            # One writer at a time per session, so that the places of one append stand together.
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._session,)
            )
            for text in texts:
                connection.execute(
                    "INSERT INTO foldline_messages (session, value) VALUES (%s, %s)",
                    (self._session, text),
                )

        self._server.run(write, may_repeat=False)

    def clear(self) -> None:
        """Forget this conversation."""
        self._server.run(
            lambda connection: connection.execute(
                "DELETE FROM foldline_messages WHERE session = %s", (self._session,)
            )
        )

    def drop_oldest(self, count: int) -> None:
        """Forget the oldest messages of this conversation."""
        self._server.run(
            lambda connection: connection.execute(
                "DELETE FROM foldline_messages WHERE place IN "
                "(SELECT place FROM foldline_messages WHERE session = %s ORDER BY place LIMIT %s)",
                (self._session, count),
            ),
            may_repeat=False,
        )

    def close(self) -> None:
        """Close connections."""
        self._server.close()
