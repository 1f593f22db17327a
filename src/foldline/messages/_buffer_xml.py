"""A message as XML, for `get_buffer_string(format="xml")`."""

from __future__ import annotations

import json
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage
from foldline.messages.chat import ChatMessage
from foldline.utils.json import to_jsonable

MAX_BLOCK_LENGTH = 500
ATTRIBUTES = {"server_tool_call": ("id", "name"), "server_tool_result": ("tool_call_id", "status")}


def as_xml(message: BaseMessage, speaker: str) -> str:
    """Return a message with its speaker as XML."""
    content = _xml_content(message.content)
    kind = quoteattr(speaker if isinstance(message, ChatMessage) else speaker.lower())
    calls = _xml_calls(message) if isinstance(message, AIMessage) else []
    if not calls:
        return f"<message type={kind}>{content}</message>"
    lines = [f"<message type={kind}>"]
    lines += [f"  <content>{content}</content>"] if content else []
    return "\n".join([*lines, *(f"  {call}" for call in calls), "</message>"])


def _xml_calls(message: AIMessage) -> list[str]:
    calls = [
        f"<tool_call id={quoteattr(call['id'] or '')} name={quoteattr(call['name'])}>"
        f"{escape(_json(call['args']))}</tool_call>"
        for call in message.tool_calls
    ]
    function_call = message.additional_kwargs.get("function_call")
    if isinstance(function_call, dict) and not calls:
        arguments = escape(str(function_call.get("arguments") or "{}"))
        name = quoteattr(str(function_call.get("name") or ""))
        calls = [f"<function_call name={name}>{arguments}</function_call>"]
    return calls


def _xml_content(content: str | list[Any]) -> str:
    if isinstance(content, str):
        return escape(content)
    parts = [escape(item) if isinstance(item, str) else _xml_block(item) for item in content]
    return " ".join(part for part in parts if part)


def _xml_block(block: dict[str, Any]) -> str:
    """Return a block as XML; encoded media and tool calls are left out."""
    kind = block.get("type")
    if kind == "text":
        return escape(str(block.get("text") or ""))
    if kind in ("reasoning", "thinking"):
        reasoning = block.get("reasoning") or block.get("thinking")
        return f"<reasoning>{escape(str(reasoning))}</reasoning>" if reasoning else ""
    if kind in ("image_url", "image", "audio", "video", "file"):
        return _xml_media(block, "image" if kind == "image_url" else str(kind))
    if kind == "text-plain":
        return escape(_short(str(block.get("text") or "")))
    if kind in ("server_tool_call", "server_tool_result"):
        payload = _json(block.get("args", block.get("output")))
        attributes = "".join(
            f" {key}={quoteattr(str(block[key]))}" for key in ATTRIBUTES[kind] if block.get(key)
        )
        return f"<{kind}{attributes}>{escape(_short(payload))}</{kind}>"
    return ""


def _xml_media(block: dict[str, Any], kind: str) -> str:
    link = block.get("image_url") if block.get("type") == "image_url" else block.get("url")
    url = link.get("url") if isinstance(link, dict) else link
    if isinstance(url, str) and url and not url.startswith("data:"):
        return f"<{kind} url={quoteattr(url)} />"
    if block.get("file_id"):
        return f"<{kind} file_id={quoteattr(str(block['file_id']))} />"
    return ""


def _short(text: str) -> str:
    return text if len(text) <= MAX_BLOCK_LENGTH else f"{text[:MAX_BLOCK_LENGTH]}..."


def _json(value: object) -> str:
    return json.dumps(to_jsonable(value), ensure_ascii=False)
