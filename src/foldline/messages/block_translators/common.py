"""What every vendor's content shares: standard blocks, and their older and JavaScript spellings."""

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
"""Keys that show a block to be a vendor's own, though its type has a standard name."""
OLD_SOURCES = {"url": "url", "base64": "base64", "id": "file_id", "text": "text"}


def translate(block: Block) -> list[Block] | None:
    """Return a standard block, in today's spelling; None for anything else."""
    kind = block.get("type")
    if kind not in STANDARD_TYPES:
        return None
    if kind in MEDIA_TYPES or kind == "text-plain" or "source_type" in block:
        return _media(block)
    if kind == "text":
        return [block] if _is_standard_text(block) else None
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
    """Read `{"type": "image", "source_type": "base64", "data": ...}`, LangChain's spelling before 1.0."""
    source = block["source_type"]
    payload = {"url": "url", "base64": "data", "id": "id", "text": "text"}.get(source, "")
    rest = {
        key: value for key, value in block.items() if key not in ("type", "source_type", payload)
    }
    kind = block["type"]
    if source == "text" and kind != "text-plain":
        kind = "text-plain"
    known = {"mime_type", "mimeType", "id", "index", "extras"}
    new: Block = {"type": kind, OLD_SOURCES.get(str(source), str(source)): block.get(payload)}
    new |= {JS_SPELLINGS.get(key, key): value for key, value in rest.items() if key in known}
    return with_extras(new, {key: value for key, value in rest.items() if key not in known})


def with_extras(block: Block, extras: dict[str, Any]) -> Block:
    """Put what a vendor said besides in `extras`."""
    said = {key: value for key, value in extras.items() if value is not None}
    if not said:
        return block
    own = block.get("extras")
    if own and not isinstance(own, dict):
        own = {"extras": own}  # no block has such extras, but nothing is lost
    return {**block, "extras": {**(own or {}), **said}}


def unread_fields(block: Block, known: Iterable[str]) -> dict[str, Any]:
    """Return what a translator did not read."""
    skip = {"type", "index", *known}
    return {key: value for key, value in block.items() if key not in skip}


def with_index(block: Block, native: Block) -> Block:
    """Keep the place that the native block had in a stream."""
    if "index" in native and "index" not in block:
        block["index"] = native["index"]
    return block


def non_standard(block: Block) -> Block:
    """Keep a block that nobody knows, whole."""
    value = {key: item for key, item in block.items() if key != "index"}
    return with_index({"type": "non_standard", "value": value}, block)


def data_url(url: str) -> dict[str, str]:
    """Read `data:image/png;base64,AAAA`; any other address stays an address."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return {"url": url}
    mime_type = head[len("data:") : -len(";base64")]
    return {"base64": data, "mime_type": mime_type} if mime_type else {"base64": data}


def media(kind: str, fields: dict[str, Any], extras: dict[str, Any] | None = None) -> Block:
    """Make a media block of what is there."""
    known = {key: value for key, value in fields.items() if value is not None}
    return with_extras({"type": kind, **known}, extras or {})
