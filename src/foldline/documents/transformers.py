"""`BaseDocumentTransformer`: turns documents into other documents (splitters, translators, cleaners)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from foldline._io import ASYNC
from foldline.documents.base import Document

__all__ = ["BaseDocumentTransformer"]


class BaseDocumentTransformer(ABC):
    """Turns documents into other documents."""

    @abstractmethod
    def transform_documents(
        self, documents: Sequence[Document], **kwargs: object
    ) -> Sequence[Document]:
        """Return the transformed documents."""

    async def atransform_documents(
        self, documents: Sequence[Document], **kwargs: object
    ) -> Sequence[Document]:
        """Return the transformed documents."""
        transformed: Sequence[Document] = await ASYNC.call(
            self.transform_documents, documents, **kwargs
        )
        return transformed
