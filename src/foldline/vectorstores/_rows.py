"""How stored rows spell documents: JSON, and what is said when one cannot be spelled or read."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from foldline.documents.base import Document
from foldline.exceptions import UsageError

logger: logging.Logger = logging.getLogger("foldline.vectorstores")


def metadata_json(document: Document) -> str:
    """Write metadata as JSON, or say which value is none."""
    for key in document.metadata:
        if not isinstance(key, str):
            raise UsageError(f"document {document.id!r}: metadata keys are texts, not {key!r}")
    try:
        return json.dumps(document.metadata, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"document {document.id!r}: metadata of a stored document is JSON ({error}): "
            "write dates as text, and leave out what is no value"
        ) from error


def pack(document: Document) -> bytes:
    """Write a document's text and metadata as bytes; any text can be written, half surrogate pairs too."""
    text = json.dumps(document.page_content, ensure_ascii=False)
    joined = f'{{"text": {text}, "metadata": {metadata_json(document)}}}'
    return joined.encode("utf-8", "surrogatepass")


def unpack(value: bytes, name: str, where: str) -> Document | None:
    """Read a document; one that is damaged is reported and left out."""
    try:
        entry: Any = json.loads(value.decode("utf-8", "surrogatepass"))
        if not isinstance(entry["text"], str) or not isinstance(entry["metadata"], Mapping):
            raise TypeError("not a text with metadata")
        return Document(entry["text"], metadata=entry["metadata"], id=name)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        logger.warning("%s: document %r is damaged and left out (%s)", where, name, error)
        return None
