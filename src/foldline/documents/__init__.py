"""Documents and blobs; citations, compressors and transformers are imported when used."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.documents.base import BaseMedia as BaseMedia, Blob as Blob, Document as Document
    from foldline.documents.citations import (
        CitedAnswer as CitedAnswer,
        CitedBlock as CitedBlock,
        Source as Source,
        citation_messages as citation_messages,
        citations as citations,
        format_sources as format_sources,
    )
    from foldline.documents.compressor import BaseDocumentCompressor as BaseDocumentCompressor
    from foldline.documents.transformers import BaseDocumentTransformer as BaseDocumentTransformer
