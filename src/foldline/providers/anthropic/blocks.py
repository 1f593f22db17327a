"""Single blocks of input -> Anthropic's: pictures, documents, citations, cache marks. Pure."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.language_models.policies.prompt_caching import cache_control_of
from foldline.messages.block_translators.common import data_url
from foldline.utils.media_types import media_type_of_block

__all__ = ["encode_citation", "encode_document", "encode_image", "marked"]

Block = dict[str, Any]

DOCUMENT_LOCATIONS: Final = frozenset({"char_location", "page_location", "content_block_location"})
"""Citations of a document, which has a `document_title` where other sources have a `title`."""
NOT_SENT: Final = ("citation_type", "file_id")
"""What a citation carries that may not come back."""
IMAGE: Final = "image/jpeg"
PDF: Final = "application/pdf"


def marked(new: Block, block: Block) -> Block:
    """Keep the cache mark of a block."""
    control = cache_control_of(block)
    return {**new, "cache_control": control} if control else new


def encode_image(block: Block) -> Block:
    """Show a picture."""
    source = _source(block, IMAGE)
    rest = {
        name: value
        for name, value in (block.get("extras") or {}).items()
        if name == "transformations"
    }
    return marked({"type": "image", "source": source, **rest}, block)


def encode_document(block: Block) -> Block:
    """Show a document: a PDF, or plain text."""
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
    return marked(document, block)


def _document_source(block: Block) -> Block:
    if block.get("text") is not None:
        return {"type": "text", "media_type": "text/plain", "data": block["text"]}
    mime = str(block.get("mime_type") or "")
    if mime.startswith("text/") and block.get("base64"):
        try:
            text = b64decode(block["base64"]).decode()
        except (Base64Error, UnicodeDecodeError) as error:
            raise UsageError(f"a document of the type {mime} is no text: {error}") from error
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


def encode_citation(note: Block) -> Block | None:
    """Return a citation back as Anthropic wrote it; None for one of somebody else."""
    if note.get("type") != "citation":
        value = note.get("value")
        cited = (value.get("citation") or value) if isinstance(value, dict) else None
        return dict(cited) if isinstance(cited, dict) else None
    extras = note.get("extras") or {}
    kind = extras.get("citation_type")
    if kind is None:
        return None
    told: Block = {"type": kind, "cited_text": note.get("cited_text") or ""}
    told["document_title" if kind in DOCUMENT_LOCATIONS else "title"] = note.get("title")
    if note.get("url"):
        told["url"] = note["url"]
    return {**told, **{name: value for name, value in extras.items() if name not in NOT_SENT}}
