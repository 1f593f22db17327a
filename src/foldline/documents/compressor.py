"""`BaseDocumentCompressor`: makes retrieved documents shorter or fewer for a query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel

from foldline._io import ASYNC
from foldline.callbacks.base import Callbacks
from foldline.documents.base import Document
from foldline.utils._signature import SIGNATURE, ClassSignature, keep_signature

__all__ = ["BaseDocumentCompressor"]


class BaseDocumentCompressor(BaseModel, ABC):
    """Makes retrieved documents shorter or fewer: a reranker, a filter, an extractor."""

    __signature__: ClassVar[ClassSignature] = SIGNATURE

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        keep_signature(cls)

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
