"""Encode single blocks for Anthropic: images, documents, citations, cache control. Pure."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.language_models._call.policies.prompt_caching import cache_control_of
from foldline.messages.block_translators._common import data_url
from foldline.utils._media_types import media_type_of_block

__all__ = ["encode_citation", "encode_document", "encode_image", "keep_cache_control"]

Block = dict[str, Any]

DOCUMENT_LOCATIONS: Final = frozenset({"char_location", "page_location", "content_block_location"})
"""Citations of a document: these have a `document_title`, others a `title`."""
NOT_SENT: Final = ("citation_type", "file_id")
"""Extras of a citation that the API does not accept in requests."""
IMAGE: Final = "image/jpeg"
PDF: Final = "application/pdf"


def keep_cache_control(new: Block, block: Block) -> Block:
    """Return `new` with the cache control of `block`, if it has one."""
    control = cache_control_of(block)
    return {**new, "cache_control": control} if control else new


def encode_image(block: Block) -> Block:
    """Return an image block for Anthropic."""
    source = _source(block, IMAGE)
    options = {
        name: value
        for name, value in (block.get("extras") or {}).items()
        if name == "transformations"
    }
    return keep_cache_control({"type": "image", "source": source, **options}, block)


def encode_document(block: Block) -> Block:
    """Return a document block for Anthropic: a PDF or plain text."""
    extras = block.get("extras") or {}
    if extras.get("type") == "container_upload":
        return {"type": "container_upload", "file_id": block.get("file_id")}
    document: Block = {"type": "document", "source": _document_source(block)}
    for name in ("title", "context", "citations"):
        value = block.get(name) if block.get(name) is not None else extras.get(name)
        if value is not None:
            document[name] = value
    if "title" not in document and extras.get("filename"):
        document["title"] = extras["filename"]
    return keep_cache_control(document, block)


def _document_source(block: Block) -> Block:
    if block.get("text") is not None:
        return {"type": "text", "media_type": "text/plain", "data": block["text"]}
    mime = str(block.get("mime_type") or "")
    if mime.startswith("text/") and block.get("base64"):
        try:
            text = b64decode(block["base64"]).decode()
        except (Base64Error, UnicodeDecodeError) as error:
            raise UsageError(f"a document of the type {mime} is not text: {error}") from error
        return {"type": "text", "media_type": "text/plain", "data": text}
    return _source(block, PDF)


def _source(block: Block, mime: str) -> Block:
    if block.get("url"):
        block = {**block, **data_url(str(block["url"]))}
    if block.get("base64"):
        return {
            "type": "base64",
            "media_type": media_type_of_block(block) or mime,
            "data": block["base64"],
        }
    if block.get("file_id"):
        return {"type": "file", "file_id": block["file_id"]}
    if block.get("url"):
        return {"type": "url", "url": block["url"]}
    raise UsageError(
        f"a block of the type {block['type']!r} needs base64, url or file_id: {sorted(block)}"
    )


def encode_citation(annotation: Block) -> Block | None:
    """Return a citation in Anthropic's format; None for one that Anthropic did not write."""
    if annotation.get("type") != "citation":
        value = annotation.get("value")
        citation = (value.get("citation") or value) if isinstance(value, dict) else None
        return dict(citation) if isinstance(citation, dict) else None
    extras = annotation.get("extras") or {}
    kind = extras.get("citation_type")
    if kind is None:
        return None
    encoded: Block = {"type": kind, "cited_text": annotation.get("cited_text") or ""}
    encoded["document_title" if kind in DOCUMENT_LOCATIONS else "title"] = annotation.get("title")
    if annotation.get("url"):
        encoded["url"] = annotation["url"]
    return {**encoded, **{name: value for name, value in extras.items() if name not in NOT_SENT}}
