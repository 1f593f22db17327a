"""Converts content between MCP and foldline. Nothing is fetched: a link becomes a line of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from pydantic_core import from_json

from foldline.tools._content import content_of
from foldline.tools.mcp._package import import_extra

Block = dict[str, Any]
DEFAULT_MIME_TYPE = "application/octet-stream"


def from_mcp(result: Any) -> str | list[Block]:  # noqa: ANN401  an object of the mcp package, which is optional
    """Convert a result to content: a single text as text, everything else as blocks."""
    blocks = [_block(item) for item in result.content]
    if not blocks and result.structured_content is not None:
        text = content_of(result.structured_content)
        return text if isinstance(text, str) else list(text)
    if all(block["type"] == "text" for block in blocks) and len(blocks) <= 1:
        return blocks[0]["text"] if blocks else ""
    return blocks


def _block(item: Any) -> Block:  # noqa: ANN401  an object of the mcp package, which is optional
    if item.type == "text":
        return {"type": "text", "text": item.text}
    if item.type in ("image", "audio"):
        return {"type": item.type, "base64": item.data, "mime_type": item.mime_type}
    if item.type == "resource_link":
        # The server chose the address, so it must not be fetched automatically: text, not a file block.
        words = [item.title or item.name, item.description, item.uri]
        return {"type": "text", "text": ": ".join(word for word in words if word)}
    if item.type == "resource":
        return _resource(item.resource)
    return {"type": "text", "text": str(content_of(item.model_dump(mode="json")))}


def _resource(resource: Any) -> Block:  # noqa: ANN401  an object of the mcp package, which is optional
    text = getattr(resource, "text", None)
    if text is not None:
        return {"type": "text", "text": text}
    kind = resource.mime_type or DEFAULT_MIME_TYPE
    family = kind.split("/")[0]
    block = family if family in ("image", "audio", "video") else "file"
    return {"type": block, "base64": resource.blob, "mime_type": kind}


def to_mcp(content: str | Sequence[Any], *, is_error: bool = False) -> Any:  # noqa: ANN401  an object of the mcp package, which is optional
    """Make a result from content; a JSON object is also set as structured content."""
    types = import_extra("mcp.types")
    blocks = [content] if isinstance(content, str) else list(content)
    structured = None if is_error or not isinstance(content, str) else _object(content)
    return types.CallToolResult(
        content=[_item(types, block) for block in blocks],
        structured_content=structured,
        is_error=is_error,
    )


def _item(types: ModuleType, block: str | Mapping[str, Any]) -> object:
    if isinstance(block, str):
        return types.TextContent(type="text", text=block)
    kind, data = block.get("type"), block.get("base64")
    if kind == "text" and isinstance(block.get("text"), str):
        return types.TextContent(type="text", text=block["text"])
    if kind in ("image", "audio") and isinstance(data, str):
        content_class = types.ImageContent if kind == "image" else types.AudioContent
        return content_class(type=kind, data=data, mime_type=block.get("mime_type") or f"{kind}/*")
    return types.TextContent(type="text", text=str(content_of({"content": block})))


def _object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
