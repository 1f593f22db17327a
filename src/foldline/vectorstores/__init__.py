"""Vector stores: search documents by vector similarity. In memory, in an SQLite file, in PostgreSQL.

The stores need NumPy (extra `vectors`), which is imported when one is made.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.vectorstores.base import (
        VST as VST,
        VectorStore as VectorStore,
        VectorStoreRetriever as VectorStoreRetriever,
    )
    from foldline.vectorstores.in_memory import InMemoryVectorStore as InMemoryVectorStore
    from foldline.vectorstores.postgres import PostgresVectorStore as PostgresVectorStore
    from foldline.vectorstores.sqlite import SQLiteVectorStore as SQLiteVectorStore
