"""What a tool returned, as the content of a message: text, content blocks, or JSON. Nothing here raises.

A tool may return anything, so everything has a text; where that text says little, or was cut, a notice says so.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from foldline.messages.base import BaseMessage
from foldline.messages.tool import ToolMessage, ToolOutputMixin

TOOL_MESSAGE_BLOCK_TYPES = (
    "text", "image_url", "image", "json", "search_result", "custom_tool_call_output", "document", "file",
)  # fmt: skip
"""LangChain's list of them."""
BLOCK_TYPES = frozenset(
    [
        *TOOL_MESSAGE_BLOCK_TYPES,
        "audio", "video", "text-plain", "non_standard", "input_text", "input_image", "input_file", "input_audio",
    ]
)  # fmt: skip
"""Kinds of content blocks that providers take in a tool's answer; a list of anything else is JSON."""

MAX_OUTPUT = 1_000_000
"""Characters of text a model is shown at most, unless the tool says otherwise."""
MAX_DATA = 32 * 1024 * 1024
"""Characters of pictures, sound and files, where text is limited."""

Content = str | list[Any]


def as_message(
    output: object,
    *,
    name: str,
    call_id: str | None,
    artifact: object = None,
    status: str = "success",
    limit: int | None = None,
) -> object:
    """Wrap what a tool gave in a message; without the id of a call, and for finished messages, leave it as it is."""
    if call_id is None or isinstance(output, ToolOutputMixin):
        return output
    if (
        isinstance(output, list)
        and output
        and all(isinstance(one, ToolOutputMixin) for one in output)
    ):
        return output
    content = content_of(output)
    if limit is not None:
        content = limited(content, limit)
    return ToolMessage(content, name=name, tool_call_id=call_id, artifact=artifact, status=status)


def content_of(output: object) -> Content:
    """Say an output as content: text and blocks as they are, everything else as JSON or at least as text."""
    if isinstance(output, str):
        return output if type(output) is str else str.__str__(output)
    if isinstance(output, BaseMessage):
        return output.content
    if isinstance(output, list | tuple) and all(_is_block(one) for one in output):
        return list(output)
    if isinstance(output, bytes | bytearray):
        return _text_of_bytes(output)
    try:
        return _write_json(output)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return _text_of(output)


def _is_block(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and value.get("type") in BLOCK_TYPES)


def _plain(value: object) -> object:
    """Return what JSON can say of a value that is not JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, uuid.UUID | decimal.Decimal | pathlib.PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


_write_json = json.JSONEncoder(ensure_ascii=False, default=_plain).encode


def _text_of_bytes(output: bytes | bytearray) -> str:
    try:
        return output.decode()
    except UnicodeDecodeError:
        return f"[{len(output):,} bytes that are no text]"


def _text_of(output: object) -> str:
    kind = type(output).__name__
    try:
        text = str(output)
    except Exception as error:  # noqa: BLE001  a user's __str__ may raise anything
        return f"[a {kind}: it is not JSON, and asking for its text raised {type(error).__name__}]"
    has_text: Any = type(output).__str__
    if has_text is not object.__str__ and not isinstance(output, dict | list | tuple):
        return text  # its author wrote a text for it
    return f"{text}\n[a {kind} that is not JSON: this is its text]"


# -- too much


def limited(content: Content, limit: int) -> Content:
    """Cut content to a number of characters, and say so where it was cut."""
    if isinstance(content, str):
        return content if len(content) <= limit else _cut(content, limit, len(content), limit)
    total = sum(len(_text_in(block)) for block in content)
    data = sum(_data_in(block) for block in content)
    if total <= limit and data <= MAX_DATA:
        return content
    return _limited_blocks(content, limit, total)


def _limited_blocks(blocks: list[Any], limit: int, total: int) -> list[Any]:
    kept: list[Any] = []
    text_left, data_left = limit, MAX_DATA
    for block in blocks:
        text, data = _text_in(block), _data_in(block)
        if data > data_left:
            kept.append(
                {"type": "text", "text": f"[{block.get('type')} of {data:,} characters left out]"}
            )
            continue
        data_left -= data
        if len(text) > text_left:
            cut = _cut(text, text_left, total, limit)
            kept.append(cut if isinstance(block, str) else {**block, "text": cut})
            break
        text_left -= len(text)
        kept.append(block)
    return kept


def _cut(text: str, keep: int, total: int, limit: int) -> str:
    notice = f"[cut: {total:,} characters, of which a tool may give {limit:,}]"
    return f"{text[:keep]}\n{notice}"


def _text_in(block: str | Mapping[str, Any]) -> str:
    if isinstance(block, str):
        return block
    text = block.get("text") if block.get("type") in ("text", "text-plain", "input_text") else None
    return text if isinstance(text, str) else ""


def _data_in(block: object, depth: int = 0) -> int:
    if isinstance(block, str):
        return len(block) if depth else 0
    if depth > 20:
        return 0
    if isinstance(block, list):
        return sum(_data_in(one, depth + 1) for one in block)
    if not isinstance(block, dict):
        return 0
    is_text = not depth and bool(_text_in(block))
    return sum(
        _data_in(one, depth + 1) for key, one in block.items() if not (is_text and key == "text")
    )
