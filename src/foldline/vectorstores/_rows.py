"""Encodes documents as JSON for stored rows, and decodes them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from foldline.documents.base import Document
from foldline.exceptions import UsageError

logger: logging.Logger = logging.getLogger("foldline.vectorstores")


def metadata_json(document: Document) -> str:
    """Return the metadata as JSON; raise `UsageError` if it cannot be encoded."""
    for key in document.metadata:
        if not isinstance(key, str):
            raise UsageError(f"document {document.id!r}: metadata keys must be text, not {key!r}")
    try:
        return json.dumps(document.metadata, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"document {document.id!r}: metadata of a stored document must be JSON ({error}): "
            "write dates as text, and remove values that JSON does not have"
        ) from error


def pack(document: Document) -> bytes:
    """Encode a document's text and metadata as bytes; text may contain lone surrogates."""
    text = json.dumps(document.page_content, ensure_ascii=False)
    entry = f'{{"text": {text}, "metadata": {metadata_json(document)}}}'
    return entry.encode("utf-8", "surrogatepass")


def unpack(value: bytes, name: str, path: str) -> Document | None:
    """Decode a document; a damaged one is logged and None is returned."""
    try:
        entry: Any = json.loads(value.decode("utf-8", "surrogatepass"))
        if not isinstance(entry["text"], str) or not isinstance(entry["metadata"], Mapping):
            raise TypeError("not a text with metadata")
        return Document(entry["text"], metadata=entry["metadata"], id=name)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        logger.warning("%s: document %r is damaged and left out (%s)", path, name, error)
        return None
