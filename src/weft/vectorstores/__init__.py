"""Vector stores: documents found by meaning. In memory, in a SQLite file, in PostgreSQL.

The stores need NumPy (extra `vectors`), but only when one is made.
"""

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
