"""Messages as the GenAI conventions write them: a role and parts. Used only where content is captured."""

from __future__ import annotations

from typing import Any

ROLES = {
    "human": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "tool": "tool",
}


def input_messages(inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """What was sent: messages, or prompts as the user's."""
    if "messages" in inputs:
        return [_message(one) for some in inputs["messages"] for one in some]
    return [
        {"role": "user", "parts": [{"type": "text", "content": prompt}]}
        for prompt in inputs.get("prompts") or []
    ]


def output_messages(outputs: dict[str, Any] | None) -> list[dict[str, Any]]:
    """What came back, one message per answer."""
    answers = [one for some in (outputs or {}).get("generations") or [] for one in some]
    written = []
    for answer in answers:
        message = answer.get("message")
        if message is None:
            written.append(
                {"role": "assistant", "parts": [{"type": "text", "content": answer.get("text")}]}
            )
            continue
        reason = message.response_metadata.get("finish_reason") or message.response_metadata.get(
            "stop_reason"
        )
        written.append({**_message(message), "finish_reason": reason or "stop"})
    return written


def _message(message: Any) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if message.type == "tool":
        result = {
            "type": "tool_call_response",
            "id": message.tool_call_id,
            "result": message.content,
        }
        return {"role": "tool", "parts": [result]}
    text = str(message.text)
    if text:
        parts.append({"type": "text", "content": text})
    parts += [
        {"type": "tool_call", "id": call.get("id"), "name": call["name"], "arguments": call["args"]}
        for call in getattr(message, "tool_calls", None) or []
    ]
    return {"role": ROLES.get(message.type, message.type), "parts": parts}


def plain_content(value: object) -> object:
    """Write messages, wherever they are in a value, as parts; the result of a tool as what it says."""
    if hasattr(value, "tool_call_id") and hasattr(value, "content"):
        return value.content
    if hasattr(value, "content") and hasattr(value, "response_metadata"):
        return _message(value)
    if isinstance(value, dict):
        return {key: plain_content(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_content(item) for item in value]
    return value
