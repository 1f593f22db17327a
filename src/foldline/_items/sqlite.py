"""`SqliteStore`: values in one SQLite file, shared by the processes of a machine."""

from __future__ import annotations

from pathlib import Path

from foldline._items.base import IndexConfig, TTLConfig
from foldline._items.table import TableStore
from foldline._lazy import publish

__all__ = ["SqliteStore"]


class SqliteStore(TableStore):
    """Stores values in an SQLite file; a `batch` is written atomically."""

    def __init__(
        self,
        path: str | Path,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        """Open the file; it is created if it does not exist."""
        super().__init__(path, index=index, ttl=ttl)


publish("foldline.graph.store.sqlite", SqliteStore)
