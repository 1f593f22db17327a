"""Documents: the values are here; compressors and transformers run things and are loaded when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazily

if TYPE_CHECKING:
    from foldline.documents.base import BaseMedia, Blob, Document
    from foldline.documents.compressor import BaseDocumentCompressor
    from foldline.documents.transformers import BaseDocumentTransformer

__all__ = [
    "BaseDocumentCompressor",
    "BaseDocumentTransformer",
    "BaseMedia",
    "Blob",
    "Document",
]

__getattr__: Loader = lazily(
    __name__,
    {
        ".base": "BaseMedia Blob Document",
        ".compressor": "BaseDocumentCompressor",
        ".transformers": "BaseDocumentTransformer",
    },
)
