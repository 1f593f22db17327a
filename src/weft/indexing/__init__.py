"""Indexing: bring documents into a store once, and keep it in step with where they come from."""

from weft.indexing.api import IndexingException, IndexingResult, aindex, index
from weft.indexing.base import (
    DeleteResponse,
    DocumentIndex,
    InMemoryRecordManager,
    RecordManager,
    UpsertResponse,
)
from weft.indexing.sqlite import SQLiteRecordManager

__all__ = [
    "DeleteResponse",
    "DocumentIndex",
    "InMemoryRecordManager",
    "IndexingException",
    "IndexingResult",
    "RecordManager",
    "SQLiteRecordManager",
    "UpsertResponse",
    "aindex",
    "index",
]
