"""`PostgresSaver`: threads in PostgreSQL (extra `postgres`), for programs on several machines."""

from __future__ import annotations

from foldline._storage.postgres import PostgresConnection, PostgresServer
from foldline.checkpoint.base import AsyncOpened, Entry, StoredSaver, check_head

__all__ = ["AsyncPostgresSaver", "PostgresSaver"]

SCHEMA = """
SELECT pg_advisory_xact_lock(7364503);
CREATE TABLE IF NOT EXISTS foldline_checkpoints (
    place BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread TEXT NOT NULL,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    parent TEXT,
    body TEXT NOT NULL,
    added_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS foldline_checkpoints_by_thread ON foldline_checkpoints (thread, namespace, place)
"""
"""The lock keeps two processes from creating the table at once."""
READ = "SELECT id, parent, body FROM foldline_checkpoints WHERE thread = %s AND namespace = %s ORDER BY place"
HEAD = "SELECT id FROM foldline_checkpoints WHERE thread = %s AND namespace = %s ORDER BY place DESC LIMIT 1"
WRITE = "INSERT INTO foldline_checkpoints (thread, namespace, id, parent, body) VALUES (%s, %s, %s, %s, %s)"
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
"""One writer at a time per thread: reading the last entry and writing the next one is atomic."""


class PostgresSaver(StoredSaver):
    """Stores threads in a PostgreSQL database, by its connection string."""

    def __init__(self, conninfo: str | PostgresServer) -> None:
        """Connect; create the table where it does not exist."""
        self._server = (
            conninfo if isinstance(conninfo, PostgresServer) else PostgresServer(conninfo, SCHEMA)
        )

    def read(self, thread_id: str, namespace: str) -> list[Entry]:
        """Return all entries of one namespace of a thread, the oldest first."""

        def work(connection: PostgresConnection) -> list[Entry]:
            rows = connection.execute(READ, (thread_id, namespace)).fetchall()
            return [Entry(*row) for row in rows]

        return self._server.run(work)

    def append(
        self, thread_id: str, namespace: str, entries: list[Entry], *, after: str | None
    ) -> None:
        """Write entries in one transaction."""

        def work(connection: PostgresConnection) -> None:
            connection.execute(LOCK, (thread_id,))
            head = connection.execute(HEAD, (thread_id, namespace)).fetchone()
            if head is not None and entries and head[0] == entries[-1].id:
                return  # the connection broke after the commit and this is the second try
            check_head(thread_id, head[0] if head else None, after)
            for entry in entries:
                values = (thread_id, namespace, entry.id, entry.parent, entry.body)
                connection.execute(WRITE, values)

        self._server.run(work)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread."""
        self._server.run(
            lambda connection: connection.execute(
                "DELETE FROM foldline_checkpoints WHERE thread = %s", (thread_id,)
            )
        )

    def close(self) -> None:
        """Close connections."""
        self._server.close()


class AsyncPostgresSaver(AsyncOpened, PostgresSaver):
    """`PostgresSaver` under LangGraph's name for async programs; one saver serves both here."""
