"""Vector stores: search documents by vector similarity. In memory, in an SQLite file, in PostgreSQL.

The stores need NumPy (extra `vectors`), which is imported when one is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.vectorstores.base import VST, VectorStore, VectorStoreRetriever
    from foldline.vectorstores.in_memory import InMemoryVectorStore
    from foldline.vectorstores.postgres import PostgresVectorStore
    from foldline.vectorstores.sqlite import SQLiteVectorStore

__all__ = [
    "VST",
    "InMemoryVectorStore",
    "PostgresVectorStore",
    "SQLiteVectorStore",
    "VectorStore",
    "VectorStoreRetriever",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "VST VectorStore VectorStoreRetriever",
        ".in_memory": "InMemoryVectorStore",
        ".postgres": "PostgresVectorStore",
        ".sqlite": "SQLiteVectorStore",
    },
)
