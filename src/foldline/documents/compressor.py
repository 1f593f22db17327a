"""`BaseDocumentCompressor`: makes retrieved documents shorter or fewer for a query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pydantic import BaseModel

from foldline._io import ASYNC
from foldline.callbacks.base import Callbacks
from foldline.documents.base import Document

__all__ = ["BaseDocumentCompressor"]


class BaseDocumentCompressor(BaseModel, ABC):
    """Makes retrieved documents shorter or fewer: a reranker, a filter, an extractor."""

    @abstractmethod
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        """Return the parts of the documents that are relevant to the query."""

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        """Return the parts of the documents that are relevant to the query."""
        compressed: Sequence[Document] = await ASYNC.call(
            self.compress_documents, documents, query, callbacks
        )
        return compressed
