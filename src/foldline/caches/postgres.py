"""`PostgresCache`: answers in PostgreSQL, shared by several machines (extra `postgres`)."""

from __future__ import annotations

from foldline._storage.postgres import PostgresServer
from foldline.caches._table import TableCache

__all__ = ["PostgresCache"]


class PostgresCache(TableCache):
    """Stores answers in a PostgreSQL database.

    ```python {test="skip: needs a PostgreSQL server"}
    set_llm_cache(PostgresCache("postgresql://127.0.0.1/postgres", ttl=3600))
    ```
    """

    def __init__(
        self,
        conninfo: str | PostgresServer = "postgresql://127.0.0.1/postgres",
        *,
        ttl: float | None = None,
    ) -> None:
        """Connect; the table is created if it does not exist. Answers older than `ttl` seconds are ignored."""
        server = conninfo if isinstance(conninfo, PostgresServer) else PostgresServer(conninfo)
        super().__init__(server, ttl=ttl)
