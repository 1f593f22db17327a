"""Indexing: add documents to a store once, and keep it in sync with their sources."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.indexing.api import (
        IndexingException as IndexingException,
        IndexingResult as IndexingResult,
        aindex as aindex,
        index as index,
    )
    from foldline.indexing.base import (
        DeleteResponse as DeleteResponse,
        DocumentIndex as DocumentIndex,
        InMemoryRecordManager as InMemoryRecordManager,
        RecordManager as RecordManager,
        UpsertResponse as UpsertResponse,
    )
    from foldline.indexing.postgres import PostgresRecordManager as PostgresRecordManager
    from foldline.indexing.sqlite import SQLiteRecordManager as SQLiteRecordManager
