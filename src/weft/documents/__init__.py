"""Documents: the values are here; compressors and transformers run things and are loaded when asked for."""

from importlib import import_module

from weft.documents.base import BaseMedia, Blob, Document

__all__ = ["BaseMedia", "Blob", "Document"]

# The high half of this straddler: when one of these modules is written, add its name to `__all__`, and an
# import under TYPE_CHECKING for editors.
_HIGHER = {
    "BaseDocumentCompressor": "weft.documents.compressor",
    "BaseDocumentTransformer": "weft.documents.transformers",
}


def __getattr__(name: str) -> object:
    if name not in _HIGHER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HIGHER[name]), name)
    except ModuleNotFoundError as error:
        raise AttributeError(f"{_HIGHER[name]} is not in this build of weft") from error
