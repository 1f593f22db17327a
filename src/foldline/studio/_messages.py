"""Runs as the page shows them: messages of plain blocks, JSON that a browser can read, errors without our paths."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from foldline.messages import BaseMessage, convert_to_messages
from foldline.tracers._otel_content import ROLES, is_message
from foldline.tracers._rows import StoredRun
from foldline.tracers._run_fields import field_of
from foldline.utils.json import to_jsonable

__all__ = ["message_to_json", "messages_from_json", "run_content", "shorten_paths"]

PLACE = re.compile(r'File "([^"]+)"')
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
ROLE_NAMES = {"user": "human", "assistant": "ai"}


def run_content(run: StoredRun) -> dict[str, Any]:
    """Return the inputs, outputs, messages and details of a run."""
    return {
        "messages": _input_messages(run),
        "answers": _answers(run),
        "inputs": to_jsonable(run.inputs),
        "outputs": to_jsonable(run.outputs),
        "extra": to_jsonable(run.extra),
        "request": to_jsonable(run.request),
        "serialized": to_jsonable(run.serialized),
        "events": to_jsonable(run.events),
        "usage": to_jsonable(run.usage) if run.run_type == "llm" else None,
        "error": None if run.error is None else shorten_paths(run.error),
        "error_message": run.error_message,
        "config": to_jsonable(run.config),
        "revision": run.revision,
        "tags": run.tags,
        "scores": run.scores,
    }


def shorten_paths(text: str) -> str:
    """Shorten each path in a traceback to its last parts, so that the page does not show this machine's folders."""

    def shorten(match: re.Match[str]) -> str:
        parts = PurePath(match[1].replace("\\", "/")).parts
        if "site-packages" in parts:
            parts = parts[parts.index("site-packages") + 1 :]
        elif "foldline" in parts:
            parts = parts[len(parts) - 1 - parts[::-1].index("foldline") :]
        else:
            parts = parts[-2:]
        return f'File "{"/".join(part for part in parts if part != "/")}"'

    return PLACE.sub(shorten, text)


def _input_messages(run: StoredRun) -> list[dict[str, Any]]:
    batches = run.inputs.get("messages")
    if run.run_type == "llm" and isinstance(batches, list) and batches:
        messages = batches[0] if isinstance(batches[0], list) else batches
        return [message_to_json(message) for message in messages]
    if run.run_type == "llm":
        prompts = run.inputs.get("prompts") or []
        return [{"role": "user", "blocks": [_text(str(prompt))]} for prompt in prompts]
    return _messages_in(run.inputs)


def _answers(run: StoredRun) -> list[dict[str, Any]]:
    if run.run_type != "llm":
        return _messages_in(run.outputs or {})
    answers = []
    for batch in (run.outputs or {}).get("generations") or []:
        for generation in batch:
            message = generation.get("message") if isinstance(generation, dict) else None
            if message is not None:
                answers.append(message_to_json(message))
            elif isinstance(generation, dict):
                answers.append({"role": "assistant", "blocks": [_text(generation.get("text"))]})
    return answers


def _messages_in(values: object) -> list[dict[str, Any]]:
    """Return the messages of a chain's value, where it is or holds a list of them."""
    candidates: list[Any] = [values, *values.values()] if isinstance(values, dict) else [values]
    for candidate in candidates:
        if isinstance(candidate, dict) and isinstance(candidate.get("kwargs"), dict):
            candidate = candidate["kwargs"].get("messages") or candidate
        if is_message(candidate):
            return [message_to_json(candidate)]
        if isinstance(candidate, list) and candidate and all(map(is_message, candidate)):
            return [message_to_json(message) for message in candidate]
    return []


def message_to_json(message: object) -> dict[str, Any]:
    """Return a message, or the dump of one, as a role and blocks."""
    if isinstance(message, list | tuple) and len(message) == 2:
        return {"role": str(message[0]), "blocks": [_text(message[1])]}
    kind = message["id"][-1] if isinstance(message, dict) and "lc" in message else None
    kind = kind or str(field_of(message, "type") or field_of(message, "role"))
    role = ROLES.get(kind, kind)
    blocks = _blocks(field_of(message, "content"))
    known_ids = {block["id"] for block in blocks if block["type"] == "tool_call"}
    for call in field_of(message, "tool_calls") or []:
        if call.get("id") not in known_ids:
            blocks.append(_call(call))
    fields: dict[str, Any] = {"role": role, "blocks": blocks}
    for name in ("id", "name", "tool_call_id", "status"):
        if (value := field_of(message, name)) is not None:
            fields[name] = value
    metadata = field_of(message, "response_metadata") or {}
    reason = metadata.get("finish_reason") or metadata.get("stop_reason")
    if reason:
        fields["finish_reason"] = str(reason)
    return fields


def _blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [_text(content)] if content else []
    if not isinstance(content, list):
        return [] if content is None else [{"type": "json", "value": to_jsonable(content)}]
    return [_block(block) for block in content]


def _block(block: object) -> dict[str, Any]:
    if not isinstance(block, dict):
        return _text(block)
    kind = block.get("type")
    if kind in ("text", "input_text", "output_text", "refusal"):
        return _text(block.get("refusal" if kind == "refusal" else "text") or "")
    if kind in ("reasoning", "thinking"):
        return {
            "type": "reasoning",
            "text": str(block.get("reasoning") or block.get("thinking") or ""),
        }
    if kind in ("tool_call", "tool_use", "server_tool_call"):
        return _call(block)
    if kind in ("image", "image_url"):
        return _picture(block)
    return {"type": "json", "value": to_jsonable(block)}


def _picture(block: dict[str, Any]) -> dict[str, Any]:
    url = block.get("url") or (block.get("image_url") or {})
    url = url.get("url") if isinstance(url, dict) else url
    mime = block.get("mime_type") or "image/png"
    if block.get("base64") and mime in PICTURES:
        return {"type": "image", "source": f"data:{mime};base64,{block['base64']}"}
    if isinstance(url, str) and url.startswith(tuple(f"data:{kind};base64," for kind in PICTURES)):
        return {"type": "image", "source": url}
    # A remote picture is not fetched: its server would learn that somebody looks at the trace.
    return {"type": "json", "value": {"type": "image", "url": url, "mime_type": mime}}


def _text(value: object) -> dict[str, Any]:
    return {"type": "text", "text": value if isinstance(value, str) else str(value or "")}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    args = call.get("args") if "args" in call else call.get("input")
    return {
        "type": "tool_call",
        "id": call.get("id"),
        "name": call.get("name"),
        "args": to_jsonable(args),
    }


def messages_from_json(messages: list[dict[str, Any]]) -> list[BaseMessage]:
    """Return messages of what the page sends: `role`, `text` or `content`, `tool_calls`, `tool_call_id`."""
    plain: list[Any] = []
    for message in messages:
        fields: dict[str, Any] = {
            "role": message.get("role"),
            "content": message.get("content", message.get("text", "")),
        }
        for name in ("tool_calls", "tool_call_id", "name"):
            if message.get(name):
                fields[name] = message[name]
        plain.append(fields)
    return convert_to_messages(plain)
