"""Documents: the values are here; compressors and transformers run things and are loaded when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.documents.base import BaseMedia, Blob, Document
    from weft.documents.compressor import BaseDocumentCompressor
    from weft.documents.transformers import BaseDocumentTransformer

__all__ = [
    "BaseDocumentCompressor",
    "BaseDocumentTransformer",
    "BaseMedia",
    "Blob",
    "Document",
]

__getattr__ = lazily(
    __name__,
    {
        ".base": "BaseMedia Blob Document",
        ".compressor": "BaseDocumentCompressor",
        ".transformers": "BaseDocumentTransformer",
    },
)
