"""`PostgresByteStore`: bytes by key in PostgreSQL, shared by several machines (extra `postgres`)."""

from __future__ import annotations

from foldline._storage.postgres import PostgresServer
from foldline.stores._table import TableByteStore

__all__ = ["PostgresByteStore"]


class PostgresByteStore(TableByteStore):
    """Stores bytes in a PostgreSQL database; one `mset` is written completely or not at all.

    PostgreSQL refuses keys of more than about 2,700 bytes.

    ```python {test="skip: needs a PostgreSQL server"}
    store = PostgresByteStore("postgresql://127.0.0.1/postgres")
    store.mset([("a", b"1")])
    ```
    """

    def __init__(self, conninfo: str | PostgresServer) -> None:
        """Connect; the table is created if it does not exist."""
        super().__init__(
            conninfo if isinstance(conninfo, PostgresServer) else PostgresServer(conninfo)
        )
