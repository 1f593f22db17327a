"""`PostgresSaver`: threads in PostgreSQL (extra `postgres`), for programs on several machines."""

from __future__ import annotations

from foldline._storage.postgres import PostgresServer
from foldline.checkpoint._stored import AsyncOpened, StoredSaver

__all__ = ["AsyncPostgresSaver", "PostgresSaver"]


class PostgresSaver(StoredSaver):
    """Stores threads in a PostgreSQL database, by its connection string."""

    def __init__(self, conninfo: str | PostgresServer) -> None:
        """Connect; create the table where it does not exist."""
        super().__init__(
            conninfo if isinstance(conninfo, PostgresServer) else PostgresServer(conninfo)
        )


class AsyncPostgresSaver(AsyncOpened, PostgresSaver):
    """`PostgresSaver` under LangGraph's name for async programs; one saver serves both here."""
