"""`PostgresStore`: values in PostgreSQL (extra `postgres`), for programs on several machines."""

from __future__ import annotations

from foldline._items.base import IndexConfig, TTLConfig
from foldline._items.table import TableStore
from foldline._lazy import publish
from foldline._storage.postgres import PostgresServer

__all__ = ["PostgresStore"]


class PostgresStore(TableStore):
    """Stores values in a PostgreSQL database; a `batch` is written atomically."""

    def __init__(
        self,
        conninfo: str | PostgresServer,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        """Connect; the table is created if it does not exist."""
        server = conninfo if isinstance(conninfo, PostgresServer) else PostgresServer(conninfo)
        super().__init__(server, index=index, ttl=ttl)


publish("foldline.graph.store.postgres", PostgresStore)
