"""Messages as the GenAI conventions write them: a role and parts. Used only where content is captured.

A message is read as it is, or as the trace file has it (`{"lc": 1, "id": [...], "kwargs": {...}}`).
"""

from __future__ import annotations

from typing import Any

from foldline.tracers._run_fields import field_of

ROLES = {
    "human": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "HumanMessageChunk": "user",
}
"""Type of a message, or its class in a dump -> the role of the conventions."""


def input_messages(inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what was sent: messages, or prompts as the user's."""
    if "messages" in inputs:
        return [_message(message) for batch in inputs["messages"] for message in batch]
    return [
        {"role": "user", "parts": [{"type": "text", "content": prompt}]}
        for prompt in inputs.get("prompts") or []
    ]


def output_messages(outputs: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return what came back, one message per answer."""
    answers = [answer for batch in (outputs or {}).get("generations") or [] for answer in batch]
    messages = []
    for answer in answers:
        message = answer.get("message")
        if message is None:
            parts = [{"type": "text", "content": answer.get("text")}]
            messages.append({"role": "assistant", "parts": parts, "finish_reason": "stop"})
            continue
        metadata = field_of(message, "response_metadata") or {}
        reason = metadata.get("finish_reason") or metadata.get("stop_reason")
        messages.append({**_message(message), "finish_reason": str(reason or "stop")})
    return messages


def is_message(value: object) -> bool:
    """Whether a value is a message, or the dump of one."""
    if isinstance(value, dict):
        name = value.get("id")
        return "lc" in value and isinstance(name, list) and bool(name) and name[-1] in ROLES
    return hasattr(value, "content") and hasattr(value, "response_metadata")


def _message(message: object) -> dict[str, Any]:
    kind = message["id"][-1] if isinstance(message, dict) and "lc" in message else None
    kind = kind or str(field_of(message, "type"))
    role = ROLES.get(kind, kind)
    content = field_of(message, "content")
    if role == "tool":
        result = {
            "type": "tool_call_response",
            "id": field_of(message, "tool_call_id"),
            "result": content,
        }
        return {"role": "tool", "parts": [result]}
    parts = _parts(content)
    parts += [
        {
            "type": "tool_call",
            "id": call.get("id"),
            "name": call.get("name"),
            "arguments": call.get("args"),
        }
        for call in field_of(message, "tool_calls") or []
    ]
    return {"role": role, "parts": parts}


def _parts(content: object) -> list[dict[str, Any]]:
    """Return the parts of a content: its text as one part, reasoning and media as further parts."""
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    text = ""
    parts: list[dict[str, Any]] = []
    for block in content if isinstance(content, list) else []:
        if isinstance(block, str):
            text += block
        elif isinstance(block, dict) and block.get("type") == "text":
            text += str(block.get("text") or "")
        elif isinstance(block, dict) and (part := _part(block)) is not None:
            parts.append(part)
    return [*([{"type": "text", "content": text}] if text else []), *parts]


def _part(block: dict[str, Any]) -> dict[str, Any] | None:
    kind = str(block.get("type"))
    if kind == "reasoning" and block.get("reasoning"):
        return {"type": "reasoning", "content": block["reasoning"]}
    if kind not in ("image", "audio", "video", "file"):
        return None
    media = {"modality": kind, "mime_type": block.get("mime_type")}
    if block.get("url"):
        return {"type": "uri", **media, "uri": block["url"]}
    if block.get("base64"):
        return {"type": "blob", **media, "content": block["base64"]}
    return {"type": "file", **media, "file_id": block.get("file_id") or block.get("id")}


def plain_content(value: object) -> object:
    """Replace messages anywhere in a value by their parts, and tool results by their content."""
    if is_message(value):
        if field_of(value, "tool_call_id") is not None:
            return field_of(value, "content")
        return _message(value)
    if isinstance(value, dict):
        return {key: plain_content(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_content(item) for item in value]
    return value
