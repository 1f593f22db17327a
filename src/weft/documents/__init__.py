"""Documents: the values are here; compressors and transformers run things and are loaded when asked for."""

from importlib import import_module
from typing import TYPE_CHECKING

from weft.documents.base import BaseMedia, Blob, Document

if TYPE_CHECKING:
    from weft.documents.compressor import BaseDocumentCompressor
    from weft.documents.transformers import BaseDocumentTransformer

__all__ = [
    "BaseDocumentCompressor",
    "BaseDocumentTransformer",
    "BaseMedia",
    "Blob",
    "Document",
]

_HIGHER = {
    "BaseDocumentCompressor": "weft.documents.compressor",
    "BaseDocumentTransformer": "weft.documents.transformers",
}


def __getattr__(name: str) -> object:
    if name not in _HIGHER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HIGHER[name]), name)
