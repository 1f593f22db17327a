"""`PostgresChatMessageHistory`: conversations in PostgreSQL (extra `postgres`); appends are atomic, order is kept."""

from __future__ import annotations

from foldline._storage.postgres import PostgresServer
from foldline.chat_history._table import TableChatMessageHistory

__all__ = ["PostgresChatMessageHistory"]


class PostgresChatMessageHistory(TableChatMessageHistory):
    """One conversation in PostgreSQL."""

    def __init__(
        self, session_id: str, conninfo: str | PostgresServer = "postgresql://127.0.0.1/postgres"
    ) -> None:
        """Open a conversation; the table is made where it is not there. Histories may share one server object."""
        server = conninfo if isinstance(conninfo, PostgresServer) else PostgresServer(conninfo)
        super().__init__(session_id, server)
