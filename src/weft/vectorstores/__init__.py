"""Vector stores: documents found by meaning. In memory, in a SQLite file, in PostgreSQL.

The stores need NumPy (extra `vectors`), but only when one is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.vectorstores.base import VST, VectorStore, VectorStoreRetriever
    from weft.vectorstores.in_memory import InMemoryVectorStore
    from weft.vectorstores.postgres import PostgresVectorStore
    from weft.vectorstores.sqlite import SQLiteVectorStore

__all__ = [
    "VST",
    "InMemoryVectorStore",
    "PostgresVectorStore",
    "SQLiteVectorStore",
    "VectorStore",
    "VectorStoreRetriever",
]

__getattr__ = lazily(
    __name__,
    {
        ".base": "VST VectorStore VectorStoreRetriever",
        ".in_memory": "InMemoryVectorStore",
        ".postgres": "PostgresVectorStore",
        ".sqlite": "SQLiteVectorStore",
    },
)
