"""Translate standard blocks, in their older and JavaScript spellings; helpers for all vendors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from foldline.protocol.blocks import BLOCK_TYPES, MEDIA_TYPES

__all__ = [
    "CLIENT_CALLS",
    "STANDARD_TYPES",
    "Block",
    "Translator",
    "data_url",
    "media",
    "non_standard",
    "translate",
    "unread_fields",
    "with_extras",
    "with_index",
]

Block: TypeAlias = dict[str, Any]
Translator: TypeAlias = Callable[[Block], list[Block] | None]

STANDARD_TYPES = BLOCK_TYPES
CLIENT_CALLS = frozenset({"tool_call", "tool_call_chunk", "invalid_tool_call"})

JS_SPELLINGS = {"mimeType": "mime_type", "fileId": "file_id", "data": "base64"}
ANNOTATIONS = frozenset({"citation", "non_standard_annotation"})
PAYLOADS = ("url", "base64", "file_id")
FOREIGN_KEYS = frozenset(
    {"source", "cache_control_source", "file", "image_url", "image", "inline_data"}
)
"""Keys of vendors' blocks whose type has a standard name."""
OLD_SOURCES = {"url": "url", "base64": "base64", "id": "file_id", "text": "text"}


def translate(block: Block) -> list[Block] | None:
    """Return a standard block in the current spelling; None for any other block."""
    kind = block.get("type")
    if kind not in STANDARD_TYPES:
        return None
    if kind in MEDIA_TYPES or kind == "text-plain" or "source_type" in block:
        return _media(block)
    if kind == "text":
        return [block] if _is_standard_text(block) else None
    if kind == "refusal" and not isinstance(block.get("refusal"), str):
        return None
    if kind == "reasoning" and "reasoning" not in block and isinstance(block.get("summary"), list):
        return None
    return [block]


def _is_standard_text(block: Block) -> bool:
    if not isinstance(block.get("text"), str) or "citations" in block:
        return False
    annotations = block.get("annotations") or []
    return isinstance(annotations, list) and all(
        isinstance(note, dict) and note.get("type") in ANNOTATIONS for note in annotations
    )


def _media(block: Block) -> list[Block] | None:
    if "source_type" in block:
        return [_old_media(block)] if isinstance(block["source_type"], str) else None
    if FOREIGN_KEYS & block.keys():
        return None
    return [{JS_SPELLINGS.get(key, key): value for key, value in block.items()}]


def _old_media(block: Block) -> Block:
    """Translate `{"type": "image", "source_type": "base64", "data": ...}`, LangChain's spelling before 1.0."""
    source = block["source_type"]
    payload = {"url": "url", "base64": "data", "id": "id", "text": "text"}.get(source, "")
    fields = {
        key: value for key, value in block.items() if key not in ("type", "source_type", payload)
    }
    kind = block["type"]
    if source == "text" and kind != "text-plain":
        kind = "text-plain"
    standard_keys = {"mime_type", "mimeType", "id", "index", "extras"}
    translated: Block = {
        "type": kind,
        OLD_SOURCES.get(str(source), str(source)): block.get(payload),
    }
    translated |= {
        JS_SPELLINGS.get(key, key): value for key, value in fields.items() if key in standard_keys
    }
    return with_extras(
        translated, {key: value for key, value in fields.items() if key not in standard_keys}
    )


def with_extras(block: Block, extras: dict[str, Any]) -> Block:
    """Return a block with further fields of the vendor in `extras`."""
    set_extras = {key: value for key, value in extras.items() if value is not None}
    if not set_extras:
        return block
    block_extras = block.get("extras")
    if block_extras and not isinstance(block_extras, dict):
        block_extras = {"extras": block_extras}  # not a valid block, but nothing is lost
    return {**block, "extras": {**(block_extras or {}), **set_extras}}


def unread_fields(block: Block, read_keys: Iterable[str]) -> dict[str, Any]:
    """Return the fields that a translator did not read."""
    ignored = {"type", "index", *read_keys}
    return {key: value for key, value in block.items() if key not in ignored}


def with_index(block: Block, native: Block) -> Block:
    """Return a block with the stream index of its native block."""
    if "index" in native and "index" not in block:
        block["index"] = native["index"]
    return block


def non_standard(block: Block) -> Block:
    """Return an unknown block, unchanged, as `non_standard`."""
    value = {key: item for key, item in block.items() if key != "index"}
    return with_index({"type": "non_standard", "value": value}, block)


def data_url(url: str) -> dict[str, str]:
    """Return the base64 and media type of a data URL; any other URL as `url`."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return {"url": url}
    mime_type = head[len("data:") : -len(";base64")]
    return {"base64": data, "mime_type": mime_type} if mime_type else {"base64": data}


def media(kind: str, fields: dict[str, Any], extras: dict[str, Any] | None = None) -> Block:
    """Return a media block with the fields that are set."""
    set_fields = {key: value for key, value in fields.items() if value is not None}
    return with_extras({"type": kind, **set_fields}, extras or {})
