"""Converts the output of a tool to the content of a message: text, content blocks, or JSON. Nothing here raises.

A tool may return any object, so every object has a text; a notice is added if the text is only a repr or was cut off.
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
"""LangChain's list of the block types in tool messages."""
BLOCK_TYPES = frozenset(
    [
        *TOOL_MESSAGE_BLOCK_TYPES,
        "audio", "video", "text-plain", "non_standard", "input_text", "input_image", "input_file", "input_audio",
    ]
)  # fmt: skip
"""Types of content blocks that providers accept in a tool's output; other lists are written as JSON."""

MAX_OUTPUT = 1_000_000
"""Characters of text that are sent to a model, unless the tool sets another limit."""
MAX_DATA = 32 * 1024 * 1024
"""Characters of images, audio and files, if text is limited."""

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
    """Wrap a tool's output in a message; return it unchanged if it is a message or the call has no id."""
    if call_id is None or isinstance(output, ToolOutputMixin):
        return output
    if (
        isinstance(output, list)
        and output
        and all(isinstance(item, ToolOutputMixin) for item in output)
    ):
        return output
    content = content_of(output)
    if limit is not None:
        content = limit_content(content, limit)
    return ToolMessage(content, name=name, tool_call_id=call_id, artifact=artifact, status=status)


def content_of(output: object) -> Content:
    """Return an output as content: text and blocks unchanged, other objects as JSON or as text."""
    if isinstance(output, str):
        return output if type(output) is str else str.__str__(output)
    if isinstance(output, BaseMessage):
        return output.content
    if isinstance(output, list | tuple) and all(_is_block(item) for item in output):
        return list(output)
    if isinstance(output, bytes | bytearray):
        return _text_of_bytes(output)
    try:
        return _write_json(output)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return _text_of(output)


def _is_block(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and value.get("type") in BLOCK_TYPES)


def _json_value(value: object) -> object:
    """Return the JSON form of a value that `json` cannot encode; raise `TypeError` if it has none."""
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


_write_json = json.JSONEncoder(ensure_ascii=False, default=_json_value).encode


def _text_of_bytes(output: bytes | bytearray) -> str:
    try:
        return output.decode()
    except UnicodeDecodeError:
        return f"[{len(output):,} bytes that are not text]"


def _text_of(output: object) -> str:
    kind = type(output).__name__
    try:
        text = str(output)
    except Exception as error:  # noqa: BLE001  a user's __str__ may raise anything
        return f"[a {kind}: it is not JSON, and its __str__ raised {type(error).__name__}]"
    to_text: Any = type(output).__str__
    if to_text is not object.__str__ and not isinstance(output, dict | list | tuple):
        return text  # its class defines __str__
    return f"{text}\n[a {kind} that is not JSON: this is its text]"


# -- limits


def limit_content(content: Content, limit: int) -> Content:
    """Cut content off after a number of characters, with a notice."""
    if isinstance(content, str):
        return content if len(content) <= limit else _cut(content, limit, len(content), limit)
    total = sum(len(_text_in(block)) for block in content)
    data = sum(_data_in(block) for block in content)
    if total <= limit and data <= MAX_DATA:
        return content
    return _limit_blocks(content, limit, total)


def _limit_blocks(blocks: list[Any], limit: int, total: int) -> list[Any]:
    limited: list[Any] = []
    text_left, data_left = limit, MAX_DATA
    for block in blocks:
        text, data = _text_in(block), _data_in(block)
        if data > data_left:
            limited.append(
                {"type": "text", "text": f"[{block.get('type')} of {data:,} characters left out]"}
            )
            continue
        data_left -= data
        if len(text) > text_left:
            cut = _cut(text, text_left, total, limit)
            limited.append(cut if isinstance(block, str) else {**block, "text": cut})
            break
        text_left -= len(text)
        limited.append(block)
    return limited


def _cut(text: str, keep: int, total: int, limit: int) -> str:
    notice = f"[cut: {total:,} characters, of which a tool may return {limit:,}]"
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
        return sum(_data_in(item, depth + 1) for item in block)
    if not isinstance(block, dict):
        return 0
    is_text = not depth and bool(_text_in(block))
    return sum(
        _data_in(item, depth + 1) for key, item in block.items() if not (is_text and key == "text")
    )
