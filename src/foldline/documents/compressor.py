"""`BaseDocumentCompressor`: makes found documents shorter or fewer, knowing what was asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pydantic import BaseModel

from foldline._io import ASYNC
from foldline.callbacks.base import Callbacks
from foldline.documents.base import Document

__all__ = ["BaseDocumentCompressor"]


class BaseDocumentCompressor(BaseModel, ABC):
    """Makes found documents shorter or fewer; a reranker, a filter, an extractor."""

    @abstractmethod
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        """Return what of the documents is worth reading for the query."""

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        """Return what of the documents is worth reading for the query."""
        kept: Sequence[Document] = await ASYNC.call(
            self.compress_documents, documents, query, callbacks
        )
        return kept
