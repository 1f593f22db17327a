"""Documents and blobs; citations, compressors and transformers are imported when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.documents.base import BaseMedia, Blob, Document
    from foldline.documents.citations import (
        CitedAnswer,
        CitedBlock,
        Source,
        citation_messages,
        citations,
        format_sources,
    )
    from foldline.documents.compressor import BaseDocumentCompressor
    from foldline.documents.transformers import BaseDocumentTransformer

__all__ = [
    "BaseDocumentCompressor",
    "BaseDocumentTransformer",
    "BaseMedia",
    "Blob",
    "CitedAnswer",
    "CitedBlock",
    "Document",
    "Source",
    "citation_messages",
    "citations",
    "format_sources",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "BaseMedia Blob Document",
        ".citations": "CitedAnswer CitedBlock Source citation_messages citations format_sources",
        ".compressor": "BaseDocumentCompressor",
        ".transformers": "BaseDocumentTransformer",
    },
)
