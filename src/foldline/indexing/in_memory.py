"""`InMemoryDocumentIndex`: documents in this process, found by how often they contain the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from pydantic import Field

from foldline.callbacks.manager import CallbackManagerForRetrieverRun
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.indexing.base import DeleteResponse, DocumentIndex, UpsertResponse

__all__ = ["InMemoryDocumentIndex"]


class InMemoryDocumentIndex(DocumentIndex):
    """Documents by id; for tests."""

    store: dict[str, Document] = Field(default_factory=dict)
    top_k: int = 4
    """The most documents to return."""

    def upsert(self, items: Sequence[Document], /, **kwargs: object) -> UpsertResponse:
        """Add documents, or replace those with the same id."""
        succeeded = []
        for item in items:
            name = item.id or str(uuid4())
            self.store[name] = item if item.id else item.model_copy(update={"id": name})
            succeeded.append(name)
        return UpsertResponse(succeeded=succeeded, failed=[])

    def delete(self, ids: list[str] | None = None, **kwargs: object) -> DeleteResponse:
        """Delete documents."""
        if ids is None:
            raise UsageError("name the ids to delete")
        deleted = [name for name in ids if self.store.pop(name, None) is not None]
        return DeleteResponse(num_deleted=len(deleted), num_failed=0, succeeded=deleted, failed=[])

    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return the documents with these ids that exist."""
        return [self.store[name] for name in ids if name in self.store]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        counted = [(item.page_content.count(query), item) for item in self.store.values()]
        best = sorted(counted, key=lambda pair: pair[0], reverse=True)
        return [document.model_copy() for _, document in best[: self.top_k]]
