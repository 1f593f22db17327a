"""Translate Anthropic's blocks: thinking, tool use, server tools, documents with a `source`."""

from __future__ import annotations

from foldline.messages.block_translators._common import Block, media, unread_fields, with_extras
from foldline.messages.block_translators._pipeline import Translate, message_translator
from foldline.protocol.merge import copy_json

__all__ = [
    "translate_content",
    "translate_content_chunk",
]

CITATION_KEYS = {
    "url": "url",
    "title": "title",
    "document_title": "title",
    "cited_text": "cited_text",
}
REQUIRED_CITATION_KEYS = {
    "web_search_result_location": ("cited_text", "url"),
    "char_location": ("cited_text",),
    "content_block_location": ("cited_text",),
    "page_location": ("cited_text",),
    "search_result_location": ("cited_text",),
}
"""Type of a citation -> the keys that it must have."""
RESULT_SUFFIX = "_tool_result"
CLIENT_RESULT = "tool_result"


def translate(block: Block) -> list[Block] | None:
    """Return the standard blocks of a native block; None if its type is unknown."""
    kind = str(block.get("type") or "")
    reader = READERS.get(kind)
    if reader is not None:
        return reader(block)
    if kind.endswith(RESULT_SUFFIX) and "tool_use_id" in block:
        return [_server_result(block)]
    return None


def _text(block: Block) -> list[Block] | None:
    if not isinstance(block.get("text"), str) or "citations" not in block:
        return None
    translated = {"type": "text", "text": block["text"], **_pick(block, ("id",))}
    if block["citations"]:
        translated["annotations"] = [_citation(citation) for citation in block["citations"]]
    return [{**translated, **unread_fields(block, ("text", "id", "citations"))}]


def _citation(citation: Block) -> Block:
    if not isinstance(citation, dict):
        return {"type": "non_standard_annotation", "value": {"citation": citation}}
    if citation.get("type") in ("citation", "non_standard_annotation"):
        return citation
    required = REQUIRED_CITATION_KEYS.get(str(citation.get("type")))
    if required is None or any(citation.get(key) is None for key in required):
        return {"type": "non_standard_annotation", "value": citation}
    translated: Block = {"type": "citation"}
    extras: Block = {}
    for key, value in citation.items():
        name = CITATION_KEYS.get(key)
        if name and name not in translated and value is not None:
            translated[name] = value
        elif key == "type":
            extras["citation_type"] = value
        else:
            extras[key] = value
    return with_extras(translated, extras)


def _thinking(block: Block) -> list[Block]:
    translated: Block = {"type": "reasoning", **_pick(block, ("id",))}
    if "thinking" in block:
        translated["reasoning"] = block["thinking"] or ""
    return [with_extras(translated, unread_fields(block, ("thinking", "id")))]


def _tool_use(block: Block) -> list[Block]:
    if not isinstance(block.get("input"), dict) or block.get("partial_json"):
        return [_call_chunk(block, "tool_call_chunk")]
    call = {
        "type": "tool_call",
        "id": block.get("id"),
        "name": block.get("name") or "",
        "args": copy_json(block["input"]),
    }
    return [with_extras(call, unread_fields(block, ("id", "name", "input")))]


def _call_chunk(block: Block, kind: str) -> Block:
    args = block.get("partial_json") or block.get("input") or ""
    chunk = {
        "type": kind,
        "id": block.get("id"),
        "name": block.get("name"),
        "args": args if isinstance(args, str) else "",
    }
    return with_extras(chunk, unread_fields(block, ("id", "name", "input", "partial_json")))


def _json_delta(block: Block) -> list[Block]:
    args = block.get("partial_json") or block.get("input") or ""
    return [{"type": "tool_call_chunk", "id": None, "name": None, "args": args}]


def _server_tool(block: Block) -> list[Block]:
    is_remote = block["type"] == "mcp_tool_use"
    if not isinstance(block.get("input"), dict) or block.get("partial_json"):
        chunk = _call_chunk(block, "server_tool_call_chunk")
        if is_remote and chunk["name"]:
            chunk = with_extras({**chunk, "name": "remote_mcp"}, {"tool_name": chunk["name"]})
        return [chunk]
    call = {
        "type": "server_tool_call",
        "id": block.get("id") or "",
        "name": "remote_mcp" if is_remote else block.get("name") or "",
        "args": copy_json(block["input"]),
    }
    extras = unread_fields(block, ("id", "name", "input"))
    if is_remote:
        extras["tool_name"] = block.get("name")
    return [with_extras(call, extras)]


def _server_result(block: Block) -> Block:
    content = block.get("content")
    is_failed = bool(block.get("is_error")) or _is_failure(content)
    result: Block = {
        "type": "server_tool_result",
        "tool_call_id": block["tool_use_id"],
        "status": "error" if is_failed else "success",
        **_pick(block, ("id",)),
    }
    if content is not None:
        result["output"] = copy_json(content)
    extras = {"block_type": block["type"], **unread_fields(block, ("tool_use_id", "content", "id"))}
    return with_extras(result, extras)


def _is_failure(content: object) -> bool:
    return isinstance(content, dict) and str(content.get("type") or "").endswith("_error")


def _image(block: Block) -> list[Block] | None:
    return _from_source(block, "image")


def _file(block: Block) -> list[Block] | None:
    return _from_source(block, "file")


def _from_source(block: Block, kind: str) -> list[Block] | None:
    source = block.get("source")
    if not isinstance(source, dict):
        return None
    payload = SOURCES.get(str(source.get("type")))
    if payload is None:
        return None
    field, key = payload
    if source.get(key) is None:
        return None  # the payload is missing
    fields: Block = {
        field: source.get(key),
        "mime_type": source.get("media_type"),
        "id": block.get("id"),
    }
    if source["type"] == "text":
        kind = "text-plain"
        fields["mime_type"] = fields["mime_type"] or "text/plain"
    if kind == "text-plain":
        fields |= {name: block.get(name) for name in ("title", "context")}
    return [media(kind, fields, unread_fields(block, ("source", *fields)))]


def _pick(block: Block, names: tuple[str, ...]) -> Block:
    return {name: block[name] for name in names if block.get(name) is not None}


SOURCES = {
    "base64": ("base64", "data"),
    "url": ("url", "url"),
    "file": ("file_id", "file_id"),
    "text": ("text", "data"),
}

READERS = {
    "text": _text,
    "thinking": _thinking,
    "tool_use": _tool_use,
    "input_json_delta": _json_delta,
    "server_tool_use": _server_tool,
    "mcp_tool_use": _server_tool,
    "image": _image,
    "document": _file,
}

translate_content: Translate = message_translator(translate)
translate_content_chunk: Translate = translate_content
