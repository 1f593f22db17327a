"""Content blocks under LangChain's path: their types, and functions that create them.

The types are defined in `foldline.protocol.blocks`. A `create_*` function gives every block an id and puts unknown
arguments in `extras`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from uuid import uuid4

from foldline.exceptions import UsageError
from foldline.protocol.blocks import (
    BLOCK_TYPES,
    MEDIA_TYPES,
    Annotation,
    AudioContentBlock,
    BlockIndex,
    Citation,
    ContentBlock,
    DataContentBlock,
    FileContentBlock,
    ImageContentBlock,
    InvalidToolCall,
    NonStandardAnnotation,
    NonStandardContentBlock,
    PlainTextContentBlock,
    ReasoningContentBlock,
    RefusalContentBlock,
    ServerToolCall,
    ServerToolCallChunk,
    ServerToolResult,
    TextContentBlock,
    ToolCall,
    ToolCallChunk,
    ToolContentBlock,
    VideoContentBlock,
)

__all__ = [
    "KNOWN_BLOCK_TYPES",
    "Annotation",
    "AudioContentBlock",
    "Citation",
    "ContentBlock",
    "DataContentBlock",
    "FileContentBlock",
    "ImageContentBlock",
    "InvalidToolCall",
    "NonStandardAnnotation",
    "NonStandardContentBlock",
    "PlainTextContentBlock",
    "ReasoningContentBlock",
    "RefusalContentBlock",
    "ServerToolCall",
    "ServerToolCallChunk",
    "ServerToolResult",
    "TextContentBlock",
    "ToolCall",
    "ToolCallChunk",
    "ToolContentBlock",
    "VideoContentBlock",
    "create_audio_block",
    "create_citation",
    "create_file_block",
    "create_image_block",
    "create_non_standard_block",
    "create_plaintext_block",
    "create_reasoning_block",
    "create_refusal_block",
    "create_text_block",
    "create_tool_call",
    "create_video_block",
    "ensure_id",
    "is_data_content_block",
]

KNOWN_BLOCK_TYPES: set[str] = set(BLOCK_TYPES)
"""Every standard block type; all others are sent as `non_standard`."""

DATA_BLOCK_TYPES = MEDIA_TYPES | {"text-plain"}
PAYLOAD_KEYS = ("url", "base64", "file_id", "fileId", "text", "data", "source_type")


def ensure_id(id_val: str | None) -> str:
    """Return the id, or a new one with the prefix `lc_`, which marks generated ids."""
    return id_val or f"lc_{uuid4()}"


def is_data_content_block(block: Mapping[str, Any]) -> bool:
    """Whether a block is media or a document, in the current or the older spelling."""
    kind = block.get("type")
    if kind not in DATA_BLOCK_TYPES:
        return False
    if kind != "text-plain" and "text" in block and "source_type" not in block:
        return False
    if "data" in block:
        return "mimeType" in block or "mime_type" in block or "source_type" in block
    return any(key in block for key in PAYLOAD_KEYS)


def create_text_block(
    text: str,
    *,
    id: str | None = None,
    annotations: list[Annotation] | None = None,
    index: BlockIndex | None = None,
    **kwargs: object,
) -> TextContentBlock:
    """Return a text block."""
    fields = {"text": text, "id": ensure_id(id), "annotations": annotations, "index": index}
    return cast("TextContentBlock", _block("text", fields, kwargs))


def create_refusal_block(
    refusal: str = "",
    *,
    id: str | None = None,
    index: BlockIndex | None = None,
    **kwargs: object,
) -> RefusalContentBlock:
    """Return a refusal block."""
    fields = {"refusal": refusal, "id": ensure_id(id), "index": index}
    return cast("RefusalContentBlock", _block("refusal", fields, kwargs))


def create_reasoning_block(
    reasoning: str | None = None,
    id: str | None = None,
    index: BlockIndex | None = None,
    **kwargs: object,
) -> ReasoningContentBlock:
    """Return a reasoning block."""
    fields = {"reasoning": reasoning or "", "id": ensure_id(id), "index": index}
    return cast("ReasoningContentBlock", _block("reasoning", fields, kwargs))


def create_image_block(
    *,
    url: str | None = None,
    base64: str | None = None,
    file_id: str | None = None,
    mime_type: str | None = None,
    id: str | None = None,
    index: BlockIndex | None = None,
    **kwargs: object,
) -> ImageContentBlock:
    """Return an image block from one of `url`, `base64` or `file_id`."""
    fields = _media(url, base64, file_id, mime_type, id, index)
    return cast("ImageContentBlock", _block("image", fields, kwargs))


def create_video_block(
    *,
    url: str | None = None,
    base64: str | None = None,
    file_id: str | None = None,
    mime_type: str | None = None,
    id: str | None = None,
    index: BlockIndex | None = None,
    **kwargs: object,
) -> VideoContentBlock:
    """Return a video block from one of `url`, `base64` (with `mime_type`) or `file_id`."""
    _require_mime_type(base64, mime_type)
    fields = _media(url, base64, file_id, mime_type, id, index)
    return cast("VideoContentBlock", _block("video", fields, kwargs))


def create_audio_block(
    *,
    url: str | None = None,
    base64: str | None = None,
    file_id: str | None = None,
    mime_type: str | None = None,
    id: str | None = None,
    index: BlockIndex | None = None,
    **kwargs: object,
) -> AudioContentBlock:
    """Return an audio block from one of `url`, `base64` (with `mime_type`) or `file_id`."""
    _require_mime_type(base64, mime_type)
    fields = _media(url, base64, file_id, mime_type, id, index)
    return cast("AudioContentBlock", _block("audio", fields, kwargs))


def create_file_block(
    *,
    url: str | None = None,
    base64: str | None = None,
    file_id: str | None = None,
    mime_type: str | None = None,
    id: str | None = None,
    index: BlockIndex | None = None,
    **kwargs: object,
) -> FileContentBlock:
    """Return a file block from one of `url`, `base64` (with `mime_type`) or `file_id`."""
    _require_mime_type(base64, mime_type)
    fields = _media(url, base64, file_id, mime_type, id, index)
    return cast("FileContentBlock", _block("file", fields, kwargs))


def create_plaintext_block(
    text: str | None = None,
    url: str | None = None,
    base64: str | None = None,
    file_id: str | None = None,
    title: str | None = None,
    context: str | None = None,
    id: str | None = None,
    index: BlockIndex | None = None,
    **kwargs: object,
) -> PlainTextContentBlock:
    """Return a plain-text document block."""
    fields = {
        "mime_type": "text/plain",
        "id": ensure_id(id),
        "text": text,
        "url": url,
        "base64": base64,
        "file_id": file_id,
        "title": title,
        "context": context,
        "index": index,
    }
    return cast("PlainTextContentBlock", _block("text-plain", fields, kwargs))


def create_tool_call(
    name: str,
    args: dict[str, Any],
    *,
    id: str | None = None,
    index: BlockIndex | None = None,
    **kwargs: object,
) -> ToolCall:
    """Return a tool call block."""
    fields = {"name": name, "args": args, "id": ensure_id(id), "index": index}
    return cast("ToolCall", _block("tool_call", fields, kwargs))


def create_non_standard_block(
    value: dict[str, Any], *, id: str | None = None, index: BlockIndex | None = None
) -> NonStandardContentBlock:
    """Return a provider's own block, wrapped."""
    fields = {"value": value, "id": ensure_id(id), "index": index}
    return cast("NonStandardContentBlock", _block("non_standard", fields, {}))


def create_citation(
    *,
    url: str | None = None,
    title: str | None = None,
    start_index: int | None = None,
    end_index: int | None = None,
    cited_text: str | None = None,
    id: str | None = None,
    **kwargs: object,
) -> Citation:
    """Return a citation for the `annotations` of a text block."""
    fields = {
        "id": ensure_id(id),
        "url": url,
        "title": title,
        "start_index": start_index,
        "end_index": end_index,
        "cited_text": cited_text,
    }
    return cast("Citation", _block("citation", fields, kwargs))


def _block(kind: str, fields: dict[str, Any], extras: dict[str, Any]) -> dict[str, Any]:
    block = {"type": kind, **{name: value for name, value in fields.items() if value is not None}}
    set_extras = {name: value for name, value in extras.items() if value is not None}
    if isinstance(set_extras.get("extras"), dict):  # extras={...} is not nested
        set_extras.update(set_extras.pop("extras"))
    return {**block, "extras": set_extras} if set_extras else block


def _media(
    url: str | None,
    base64: str | None,
    file_id: str | None,
    mime_type: str | None,
    id: str | None,
    index: BlockIndex | None,
) -> dict[str, Any]:
    if url is None and base64 is None and file_id is None:
        raise UsageError("a media block needs one of: url, base64, file_id")
    return {
        "id": ensure_id(id),
        "url": url,
        "base64": base64,
        "file_id": file_id,
        "mime_type": mime_type,
        "index": index,
    }


def _require_mime_type(base64: str | None, mime_type: str | None) -> None:
    if base64 is not None and not mime_type:
        raise UsageError("mime_type is required with base64 data, e.g. mime_type='audio/wav'")
