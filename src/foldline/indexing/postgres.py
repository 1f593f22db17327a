"""`PostgresRecordManager`: records in PostgreSQL, shared by several machines (extra `postgres`)."""

from __future__ import annotations

from foldline._storage.postgres import PostgresServer
from foldline.indexing._table import TableRecordManager

__all__ = ["PostgresRecordManager"]


class PostgresRecordManager(TableRecordManager):
    """Records in a PostgreSQL database; their times are the database's, so machines with other clocks may share it.

    PostgreSQL refuses keys and sources of more than about 2,700 bytes.

    ```python {test="skip: needs a PostgreSQL server"}
    manager = PostgresRecordManager("docs", "postgresql://127.0.0.1/postgres")
    manager.update(["a"], group_ids=["page 1"])
    ```
    """

    def __init__(self, namespace: str, conninfo: str | PostgresServer) -> None:
        """Connect; the table is created if it does not exist."""
        server = conninfo if isinstance(conninfo, PostgresServer) else PostgresServer(conninfo)
        super().__init__(namespace, server)

    def get_time(self) -> float:
        """Return the time by the clock of the database."""
        rows = self._database.rows("SELECT extract(epoch FROM clock_timestamp())")
        return float(rows[0][0])
