"""Convert messages to dicts in OpenAI's chat format, from any provider's blocks.

A block without an equivalent is passed on unchanged, unless `pass_through_unknown_blocks=False`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Literal, cast

from foldline.exceptions import UsageError
from foldline.messages._kinds import is_message_type
from foldline.messages._runnable_function import runnable_function
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage
from foldline.messages.block_translators.openai import (
    convert_to_openai_data_block,
    convert_to_openai_image_block,
    default_file_name,
)
from foldline.messages.chat import ChatMessage
from foldline.messages.content import is_data_content_block
from foldline.messages.convert import convert_to_message, convert_to_messages
from foldline.messages.tool import ToolMessage

__all__ = [
    "convert_to_openai_data_block",
    "convert_to_openai_image_block",
    "convert_to_openai_messages",
]

OPENAI_ROLES = {
    "ai": "assistant",
    "human": "user",
    "tool": "tool",
    "function": "function",
    "system": "system",
}
NATIVE_TYPES = frozenset(
    {"text", "image_url", "input_audio", "refusal", "input_text", "output_text"}
)
PASS_THROUGH_TYPES = frozenset({"thinking", "reasoning", "redacted_thinking", "document"})
CALL_TYPES = frozenset({"tool_call", "invalid_tool_call", "tool_call_chunk"})
TextFormat = Literal["string", "block"]
Dict = dict[str, Any]


@runnable_function
def convert_to_openai_messages(
    messages: object,
    *,
    text_format: TextFormat = "string",
    include_id: bool = False,
    pass_through_unknown_blocks: bool = True,
) -> Dict | list[Dict]:
    """Return messages in the format of chat completions: a dict for one message, a list for a list."""
    if text_format not in ("string", "block"):
        raise UsageError(f"Unrecognized text_format={text_format!r}: write 'string' or 'block'")
    is_single = isinstance(messages, BaseMessage | str | dict) or _is_pair(messages)
    converted = [convert_to_message(messages)] if is_single else convert_to_messages(messages)
    dicts: list[Dict] = []
    for index, message in enumerate(converted):
        location = f"messages[{index}]"
        dicts += _write_message(
            message,
            location,
            text_format,
            include_id=include_id,
            strict=not pass_through_unknown_blocks,
        )
    return dicts[0] if is_single and len(dicts) == 1 else dicts


def openai_role(message: BaseMessage) -> str:
    """Return OpenAI's role of a message."""
    if (role := OPENAI_ROLES.get(message.type)) is not None:
        return str(message.additional_kwargs.get("__openai_role__") or role)
    if isinstance(message, ChatMessage):
        return message.role
    for kind, role in OPENAI_ROLES.items():
        if is_message_type(message, kind):
            return str(message.additional_kwargs.get("__openai_role__") or role)
    raise UsageError(f"OpenAI has no role for a {type(message).__name__}")


def _is_pair(messages: object) -> bool:
    return isinstance(messages, tuple) and len(messages) == 2 and isinstance(messages[0], str)


def _write_message(
    message: BaseMessage, location: str, text_format: TextFormat, *, include_id: bool, strict: bool
) -> list[Dict]:
    head: Dict = {"role": openai_role(message)}
    if message.name:
        head["name"] = message.name
    if isinstance(message, ToolMessage):
        head["tool_call_id"] = message.tool_call_id
    if include_id and message.id:
        head["id"] = message.id
    calls = [_call(call["name"], call["args"], call["id"]) for call in _calls(message)]
    if isinstance(message, AIMessage) and message.additional_kwargs.get("refusal"):
        head["refusal"] = message.additional_kwargs["refusal"]
    blocks, results = _blocks(message, location, calls, strict=strict)
    if calls:
        head["tool_calls"] = calls
    answers = [_tool_answer(result, text_format) for result in results]
    content = _content(message.content, blocks, text_format)
    if answers and not blocks:
        return answers
    return [{**head, "content": content}, *answers]


def _calls(message: BaseMessage) -> Sequence[Dict]:
    return cast("Sequence[Dict]", message.tool_calls) if isinstance(message, AIMessage) else []


def _call(name: str, args: object, id: object) -> Dict:
    function = {"name": name, "arguments": _json(args, f"the arguments of {name}")}
    return {"type": "function", "id": id, "function": function}


def _json(value: object, subject: str) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{subject} cannot be written as JSON: {error}; give plain values, not too deep"
        ) from error


def _blocks(
    message: BaseMessage, location: str, calls: list[Dict], *, strict: bool
) -> tuple[list[Dict], list[Dict]]:
    """Return the content blocks in OpenAI's format, and separately tool results that are in the content."""
    content = message.content
    items = [content] if isinstance(content, str) else content
    blocks: list[Dict] = []
    results: list[Dict] = []
    for index, item in enumerate(items):
        if isinstance(item, str):
            blocks += [{"type": "text", "text": item}] if item else []
        elif item.get("type") == "tool_result":
            results.append(item)
        elif item.get("type") == "refusal":  # one without words has nothing to send
            words = item.get("refusal")
            blocks += [{"type": "refusal", "refusal": words}] if words else []
        elif (
            item.get("type") == "function_call"
        ):  # of the Responses API, if blocks are passed through
            _add_responses_call(item, calls)
            blocks += [] if strict else [item]
        elif item.get("type") == "tool_use" or (item.get("type") in CALL_TYPES and calls):
            _add_call(item, calls)
        else:
            blocks.append(_block(item, f"{location}.content[{index}]", strict=strict))
    return blocks, results


def _add_call(item: Dict, calls: list[Dict]) -> None:
    if item.get("type") == "tool_use" and all(call["id"] != item.get("id") for call in calls):
        calls.append(_call(item.get("name") or "", item.get("input") or {}, item.get("id")))


def _add_responses_call(item: Dict, calls: list[Dict]) -> None:
    if all(call["id"] != item.get("call_id") for call in calls):
        function = {"name": item.get("name") or "", "arguments": item.get("arguments") or "{}"}
        calls.append({"type": "function", "id": item.get("call_id"), "function": function})


def _name_file(item: Dict) -> Dict:
    """Return the block with a file name, without which OpenAI refuses the data."""
    file = item["file"]
    if "file_data" not in file or file.get("filename"):
        return item
    return {**item, "file": {**file, "filename": default_file_name()}}


def _block(item: Dict, location: str, *, strict: bool) -> Dict:
    kind = item.get("type")
    if kind == "text" or (kind in (None, "text-plain") and isinstance(item.get("text"), str)):
        if not isinstance(item.get("text"), str):
            raise UsageError(f"{location} is a text block without 'text': {item!r:.200}")
        return {"type": "text", "text": item["text"]}
    if kind == "file" and isinstance(item.get("file"), dict):
        return _name_file(item)
    if kind in NATIVE_TYPES:
        return item
    if is_data_content_block(item):
        return convert_to_openai_data_block(item)
    translated = _translate_foreign(item)
    if translated is not None:
        return translated
    if strict and kind not in PASS_THROUGH_TYPES:
        raise UsageError(
            f"{location}: Unrecognized content block. It is none of OpenAI, Anthropic, Bedrock or Gemini that could be"
            f" written: {item!r:.200}"
        )
    return item


def _translate_foreign(item: Dict) -> Dict | None:
    """Return a block of Anthropic, Bedrock or Gemini in OpenAI's format, or None."""
    source = item.get("source")
    if item.get("type") == "image" and isinstance(source, dict):
        return _image(source.get("media_type"), source.get("data"), source.get("url"))
    image = item.get("image")
    if isinstance(image, dict) and isinstance(image.get("source"), dict):
        return _image(f"image/{image.get('format')}", image["source"].get("bytes"), None)
    if item.get("type") == "media":
        mime = str(item.get("mime_type") or "")
        if not mime.startswith("image/"):
            raise UsageError(f"OpenAI's chat form takes images, not media of the type {mime!r}")
        return _image(mime, item.get("data"), item.get("file_uri"))
    guard = item.get("guard_content") or item.get("guardContent")
    if isinstance(guard, dict):
        text = guard.get("text")
        return {
            "type": "text",
            "text": text.get("text") if isinstance(text, dict) else str(text or ""),
        }
    if "json" in item:
        return {"type": "text", "text": _json(item["json"], "a block of JSON")}
    return None


def _image(mime: str | None, data: object, url: str | None) -> Dict:
    if data is not None:
        encoded = b64encode(data).decode() if isinstance(data, bytes) else str(data)
        url = f"data:{mime};base64,{encoded}"
    if not url:
        raise UsageError("an image needs data or a url to be written in OpenAI's form")
    return {"type": "image_url", "image_url": {"url": url}}


def _content(content: object, blocks: list[Dict], text_format: TextFormat) -> object:
    if text_format == "block":
        return blocks
    if isinstance(content, str):
        return content
    if all(block.get("type") == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def _tool_answer(result: Dict, text_format: TextFormat) -> Dict:
    message = ToolMessage(
        result.get("content") or "",
        tool_call_id=str(result.get("tool_use_id") or ""),
        status="error" if result.get("is_error") else "success",
    )
    return _write_message(message, "tool_result", text_format, include_id=False, strict=False)[0]
