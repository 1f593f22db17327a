"""Translate Gemini's parts (`inline_data`, `function_call`, code and its result), also under LangChain's names."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, cast

from foldline.messages.block_translators._common import Block, media, unread_fields, with_extras
from foldline.messages.block_translators._pipeline import Translate, message_translator
from foldline.protocol.blocks import Citation
from foldline.protocol.merge import copy_json
from foldline.protocol.tool_call_parser import promote

__all__ = [
    "translate_content",
    "translate_content_chunk",
    "translate_grounding_metadata_to_citations",
]

CAMEL = {
    "inlineData": "inline_data",
    "fileData": "file_data",
    "functionCall": "function_call",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "thoughtSignature": "thought_signature",
}
SUCCESS_OUTCOMES = (1, "1", "OUTCOME_OK", "ok", None)
SOURCE_KINDS = ("web", "retrievedContext", "retrieved_context", "maps")
"""Kinds of sources in a grounding chunk."""
MEDIA_KINDS = ("image", "audio", "video")


def translate(block: Block) -> list[Block] | None:
    """Return the standard blocks of a native part; None if its kind is unknown."""
    part = {CAMEL.get(key, key): value for key, value in block.items()}
    kind = part.get("type")
    reader = READERS.get(str(kind)) if kind else None
    if reader is not None:
        return reader(part)
    if kind is not None:
        return None
    for key, read in PARTS.items():
        if key in part:
            return read(part)
    return None


def add_citations(blocks: list[Block], metadata: Mapping[str, Any]) -> list[Block]:
    """Add the citations of a grounded answer, which Gemini sends separately, to its text."""
    late_citations = metadata.get("late_citations")
    if isinstance(late_citations, list):
        return _add_late_citations(blocks, late_citations)
    grounding = metadata.get("grounding_metadata")
    if not isinstance(grounding, dict) or any(block.get("annotations") for block in blocks):
        return blocks
    citations = translate_grounding_metadata_to_citations(grounding)
    position = next(
        (position for position, block in enumerate(blocks) if block.get("type") == "text"), None
    )
    if position is None or not citations:
        return blocks
    return [
        *blocks[:position],
        {**blocks[position], "annotations": citations},
        *blocks[position + 1 :],
    ]


def _add_late_citations(blocks: list[Block], late_citations: list[Any]) -> list[Block]:
    """Add citations that arrived after their text block had ended; they contain its number."""
    by_text_block: dict[Any, list[Block]] = {}
    for citation in late_citations:
        if isinstance(citation, dict):
            fields = {name: value for name, value in citation.items() if name != "text_block"}
            by_text_block.setdefault(citation.get("text_block"), []).append(fields)
    cited, number = [], -1
    for block in blocks:
        number += block.get("type") == "text"
        own_citations = by_text_block.get(number, []) if block.get("type") == "text" else []
        new_citations = [
            citation
            for citation in own_citations
            if citation not in (block.get("annotations") or ())
        ]
        merged = [*(block.get("annotations") or ()), *new_citations]
        cited.append({**block, "annotations": merged} if new_citations else block)
    return cited


def translate_grounding_metadata_to_citations(grounding_metadata: Block) -> list[Citation]:
    """Return Gemini's grounding metadata as citations."""
    names = {"groundingChunks": "grounding_chunks", "groundingSupports": "grounding_supports"}
    metadata = {names.get(key, key): value for key, value in grounding_metadata.items()}
    chunks = metadata.get("grounding_chunks") or []
    citations = [
        _citation(chunks, number, support)
        for support in metadata.get("grounding_supports") or []
        for number in _numbers(support)
        if isinstance(number, int) and 0 <= number < len(chunks)
    ]
    return cast("list[Citation]", citations)


def _numbers(support: Block) -> list[Any]:
    return support.get("grounding_chunk_indices") or support.get("groundingChunkIndices") or []


def _citation(chunks: list[Block], number: int, support: Block) -> Block:
    chunk = chunks[number] if isinstance(chunks[number], dict) else {}
    source: Block = next(
        (chunk[kind] for kind in SOURCE_KINDS if isinstance(chunk.get(kind), dict)), {}
    )
    segment = support.get("segment") or {}
    fields = {
        "url": source.get("uri"),
        "title": source.get("title"),
        "start_index": segment.get("start_index", segment.get("startIndex")),
        "end_index": segment.get("end_index", segment.get("endIndex")),
        "cited_text": segment.get("text"),
    }
    citation: Block = {"type": "citation", **{k: v for k, v in fields.items() if v is not None}}
    scores = support.get("confidence_scores") or support.get("confidenceScores")
    return with_extras(citation, {"grounding_chunk_index": number, "confidence_scores": scores})


def _thought(part: Block) -> list[Block]:
    translated: Block = {"type": "reasoning"}
    text = part.get("thinking", part.get("text"))
    if isinstance(text, str):
        translated["reasoning"] = text
    return [with_extras(translated, unread_fields(part, ("thinking", "text", "thought")))]


def _text(part: Block) -> list[Block] | None:
    if not isinstance(part.get("text"), str):
        return None
    if part.get("thought"):
        return _thought(part)
    if "thought_signature" not in part:
        return None
    return [
        with_extras(
            {"type": "text", "text": part["text"]}, unread_fields(part, ("text", "thought"))
        )
    ]


def _function_call(part: Block) -> list[Block] | None:
    call = part.get("function_call")
    if not isinstance(call, dict):
        return None
    translated: Block = {"type": "tool_call", "id": call.get("id"), "name": call.get("name") or ""}
    args = call.get("args")
    if isinstance(args, dict) or args in (None, ""):
        translated["args"] = copy_json(args) if args else {}
    else:  # invalid arguments: the call must not run without them (F-U03)
        translated = promote(
            {**translated, "args": json.dumps(args) if isinstance(args, str) else args}
        )
    extras = unread_fields(call, ("id", "name", "args")) | unread_fields(part, ("function_call",))
    return [with_extras(translated, extras)]


def _code(part: Block) -> list[Block] | None:
    if "executable_code" not in part:
        return None
    code = part["executable_code"]
    inner = code if isinstance(code, dict) else {"code": code}
    language = inner.get("language", part.get("language"))
    args = {"code": inner.get("code"), **({"language": language} if language is not None else {})}
    call: Block = {
        "type": "server_tool_call",
        "id": part.get("id") or inner.get("id") or "",
        "name": "code_interpreter",
        "args": args,
    }
    return [with_extras(call, unread_fields(part, ("executable_code", "language", "id")))]


def _code_result(part: Block) -> list[Block] | None:
    if "code_execution_result" not in part:
        return None
    native_result = part["code_execution_result"]
    inner = native_result if isinstance(native_result, dict) else {"output": native_result}
    outcome = inner.get("outcome", part.get("outcome"))
    result = {
        "type": "server_tool_result",
        "tool_call_id": part.get("tool_call_id") or inner.get("id") or "",
        "status": "success" if outcome in SUCCESS_OUTCOMES else "error",
        "output": inner.get("output"),
    }
    unread = unread_fields(part, ("code_execution_result", "outcome", "tool_call_id"))
    extras = {"block_type": "code_execution_result", "outcome": outcome, **unread}
    return [with_extras(result, extras)]


def _inline(part: Block) -> list[Block] | None:
    data = part.get("inline_data")
    if not isinstance(data, dict):
        return None
    mime = data.get("mime_type") or data.get("mimeType")
    fields = {"base64": _encoded(data.get("data")), "mime_type": mime}
    read_keys = ("data", "mime_type", "mimeType")
    return [
        media(
            _kind_of(mime),
            fields,
            unread_fields(data, read_keys) | unread_fields(part, ("inline_data",)),
        )
    ]


def _file(part: Block) -> list[Block] | None:
    data = part.get("file_data")
    if not isinstance(data, dict):
        return None
    mime = data.get("mime_type") or data.get("mimeType")
    fields = {"url": data.get("file_uri") or data.get("fileUri"), "mime_type": mime}
    read_keys = ("file_uri", "fileUri", "mime_type", "mimeType")
    return [
        media(
            _kind_of(mime),
            fields,
            unread_fields(data, read_keys) | unread_fields(part, ("file_data",)),
        )
    ]


def _media(part: Block) -> list[Block]:
    """Translate `{"type": "media", "mime_type": ..., "data" or "file_uri": ...}`, LangChain's form for Gemini."""
    mime = part.get("mime_type") or part.get("mimeType")
    fields = {
        "base64": _encoded(part.get("data")),
        "url": part.get("file_uri") or part.get("fileUri") or part.get("url"),
        "mime_type": mime,
    }
    read_keys = ("mime_type", "mimeType", "data", "file_uri", "fileUri", "url")
    return [media(_kind_of(mime), fields, unread_fields(part, read_keys))]


def _kind_of(mime: object) -> str:
    family = str(mime or "").partition("/")[0]
    return family if family in MEDIA_KINDS else "file"


def _encoded(data: object) -> str | None:
    if isinstance(data, bytes | bytearray):
        return b64encode(data).decode()
    return data if isinstance(data, str) else None


READERS = {
    "thinking": _thought,
    "executable_code": _code,
    "code_execution_result": _code_result,
    "media": _media,
    "text": _text,
}
PARTS = {
    "function_call": _function_call,
    "executable_code": _code,
    "code_execution_result": _code_result,
    "inline_data": _inline,
    "file_data": _file,
    "thought": _thought,
    "text": _text,
}

translate_content: Translate = message_translator(translate)
translate_content_chunk: Translate = translate_content
