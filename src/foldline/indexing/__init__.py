"""Indexing: add documents to a store once, and keep it in sync with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.indexing.api import IndexingException, IndexingResult, aindex, index
    from foldline.indexing.base import (
        DeleteResponse,
        DocumentIndex,
        InMemoryRecordManager,
        RecordManager,
        UpsertResponse,
    )
    from foldline.indexing.postgres import PostgresRecordManager
    from foldline.indexing.sqlite import SQLiteRecordManager

__all__ = [
    "DeleteResponse",
    "DocumentIndex",
    "InMemoryRecordManager",
    "IndexingException",
    "IndexingResult",
    "PostgresRecordManager",
    "RecordManager",
    "SQLiteRecordManager",
    "UpsertResponse",
    "aindex",
    "index",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".api": "IndexingException IndexingResult aindex index",
        ".base": "DeleteResponse DocumentIndex InMemoryRecordManager RecordManager UpsertResponse",
        ".postgres": "PostgresRecordManager",
        ".sqlite": "SQLiteRecordManager",
    },
)
