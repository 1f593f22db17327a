"""Translate blocks of Bedrock's Converse: keyed by their kind (`{"text": ...}`), or with LangChain's `type`."""

from __future__ import annotations

from base64 import b64encode

from foldline.messages.block_translators._common import Block, media, unread_fields, with_extras
from foldline.messages.block_translators._pipeline import Translate, message_translator
from foldline.protocol.merge import copy_json

__all__ = [
    "translate_content",
    "translate_content_chunk",
]

REASONING_KEYS = ("reasoning_content", "reasoningContent")
CALL_KEYS = ("toolUse", "tool_use")
MEDIA_KINDS = {"image": "image", "document": "file", "video": "video", "audio": "audio"}
MIME_TYPES = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "three_gp": "video/3gpp",
}


def translate(block: Block) -> list[Block] | None:
    """Return the standard blocks of a native block; None if its type is unknown."""
    kind = block.get("type")
    if kind is None and isinstance(block.get("text"), str) and set(block) <= {"text", "index"}:
        return [{"type": "text", "text": block["text"]}]
    for key in REASONING_KEYS:
        if isinstance(block.get(key), dict) and kind in (None, *REASONING_KEYS):
            return [_reasoning(block, key)]
    for key in CALL_KEYS:
        if isinstance(block.get(key), dict) and kind is None:
            return [_call(block[key], block, key)]
    if kind == "tool_use" and isinstance(block.get("input"), dict):
        return [_call(block, block, "")]
    return _media(block) if kind is None or kind in MEDIA_KINDS else None


def _reasoning(block: Block, key: str) -> Block:
    content = block[key]
    inner = (
        content.get("reasoningText") if isinstance(content.get("reasoningText"), dict) else content
    )
    translated: Block = {"type": "reasoning"}
    if isinstance(inner.get("text"), str):
        translated["reasoning"] = inner["text"]
    extras = {name: value for name, value in inner.items() if name != "text"}
    if inner is not content:
        extras |= {name: value for name, value in content.items() if name != "reasoningText"}
    return with_extras(translated, {**extras, **unread_fields(block, (key,))})


def _call(call: Block, block: Block, key: str) -> Block:
    args = call.get("input")
    translated = {
        "type": "tool_call",
        "id": call.get("toolUseId") or call.get("id"),
        "name": call.get("name") or "",
        "args": copy_json(args) if isinstance(args, dict) else {},
    }
    extras = unread_fields(call, ("toolUseId", "id", "name", "input"))
    if call is not block:
        extras |= unread_fields(block, (key,))
    return with_extras(translated, extras)


def _media(block: Block) -> list[Block] | None:
    for key, kind in MEDIA_KINDS.items():
        inner = block.get(key)
        if isinstance(inner, dict) and isinstance(inner.get("source"), dict):
            source, form = inner["source"], str(inner.get("format") or "")
            source_keys = {"bytes", "s3Location"}
            fields = {
                "base64": _encoded(source.get("bytes")),
                "url": (source.get("s3Location") or {}).get("uri"),
                "mime_type": MIME_TYPES.get(form) or (f"{kind}/{form}" if form else None),
            }
            if fields["base64"] is None and fields["url"] is None:
                return None
            extras = unread_fields(inner, ("source", "format")) | unread_fields(source, source_keys)
            location = {k: v for k, v in (source.get("s3Location") or {}).items() if k != "uri"}
            return [media(kind, fields, extras | location | unread_fields(block, (key,)))]
    return None


def _encoded(data: object) -> str | None:
    if isinstance(data, bytes | bytearray):
        return b64encode(data).decode()
    return data if isinstance(data, str) else None


translate_content: Translate = message_translator(translate)
translate_content_chunk: Translate = translate_content
