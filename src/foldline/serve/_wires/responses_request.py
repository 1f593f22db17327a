"""Decodes requests of OpenAI's Responses into messages and options."""

from __future__ import annotations

from typing import Any

from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._wires.media import block_of_url
from foldline.serve._wires.options import MOST_TOKENS, check_tool_name, effort_of, sampling
from foldline.serve._wires.request_parts import (
    decode_call,
    decode_content,
    decode_format,
    drop_unset,
    parallel_option,
    required_name,
)
from foldline.serve._wires.responses_tools import custom_call, decode_tool_options, full_name
from foldline.serve.apps import ServedApp
from foldline.serve.settings import ServeSettings

__all__ = ["decode_items", "decode_options"]


def decode_items(body: Body, settings: ServeSettings, app: ServedApp) -> list[BaseMessage]:
    """Return the input items of a request as messages; calls of one turn are one message."""
    value = body.get("input")
    if isinstance(value, str):
        return [HumanMessage(value)]
    messages: list[BaseMessage] = []
    for item in body.objects("input", most=settings.max_messages):
        _add_item(item, messages, app)
    return messages


def _add_item(item: Body, messages: list[BaseMessage], app: ServedApp) -> None:
    kind = item.text("type", "message")
    if kind == "message":
        messages.append(_decode_message(item))
    elif kind in ("function_call", "custom_tool_call"):
        if not messages or not isinstance(messages[-1], AIMessage):
            messages.append(AIMessage(""))
        _add_call(item, messages, app)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        content = decode_content(item, "output", _decode_part)
        messages.append(ToolMessage(content, tool_call_id=required_name(item, "call_id")))
    elif kind == "reasoning":
        _add_reasoning(item, messages)
    else:
        raise item.refuse(
            "type",
            "must be message, function_call, function_call_output, custom_tool_call, custom_tool_call_output or "
            "reasoning",
        )


def _add_call(item: Body, messages: list[BaseMessage], app: ServedApp) -> None:
    last: Any = messages[-1]
    id = item.text("call_id", "", longest=256)
    name = full_name(check_tool_name(item), item.maybe_text("namespace", longest=256))
    if item.text("type") == "custom_tool_call":
        call = custom_call(id, name, item.text("input", ""), app)
    else:
        call = decode_call(id, name, item.text("arguments", "{}"))
    calls, invalid = list(last.tool_calls), list(last.invalid_tool_calls)
    (calls if call["type"] == "tool_call" else invalid).append(call)
    messages[-1] = AIMessage(last.content, tool_calls=calls, invalid_tool_calls=invalid)


def _add_reasoning(item: Body, messages: list[BaseMessage]) -> None:
    parts = [part.text("text", "") for part in item.objects("summary", most=100)]
    if parts:
        messages.append(AIMessage([{"type": "reasoning", "reasoning": "\n".join(parts)}]))


def _decode_message(item: Body) -> BaseMessage:
    role = item.text("role")
    content = decode_content(item, "content", _decode_part)
    if role in ("system", "developer"):
        return SystemMessage(content)
    if role == "user":
        return HumanMessage(content)
    if role == "assistant":
        return AIMessage(content)
    raise item.refuse("role", "must be user, assistant, system or developer")


def _decode_part(part: Body) -> JsonObject:
    kind = part.text("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part.text("text")}
    if kind == "refusal":
        return {"type": "refusal", "refusal": part.text("refusal")}
    if kind == "input_image":
        url = part.maybe_text("image_url")
        if url is None:
            raise part.refuse("image_url", "is needed: this server keeps no files")
        return block_of_url(part, "image_url", url, "image")
    if kind == "input_file":
        return _decode_file(part)
    raise part.refuse("type", "must be input_text, output_text, input_image or input_file")


def _decode_file(part: Body) -> JsonObject:
    url = part.maybe_text("file_url") or part.maybe_text("file_data")
    if url is None:
        raise part.refuse("file_data", "is needed: this server keeps no files")
    if not url.startswith(("data:", "http://", "https://")):
        url = f"data:application/pdf;base64,{url}"
    block = block_of_url(part, "file_data", url, "file")
    name = part.maybe_text("filename", longest=512)
    return {**block, "extras": {"filename": name}} if name else block


def decode_options(body: Body, settings: ServeSettings, app: ServedApp) -> JsonObject:
    """Return the options of a request."""
    for name in ("background", "prompt", "conversation"):
        if body.get(name):
            raise body.refuse(name, "is not supported by this server")
    reasoning = body.object("reasoning")
    text = body.object("text")
    options: JsonObject = {
        **sampling(body),
        "max_tokens": body.integer("max_output_tokens", 1, MOST_TOKENS),
        "reasoning_effort": effort_of(reasoning, "effort") if reasoning is not None else None,
        "verbosity": text.maybe_text("verbosity", longest=16) if text is not None else None,
        "response_format": decode_format(text.object("format") if text is not None else None),
        "user": body.maybe_text("user", longest=512),
    }
    tools = decode_tool_options(body, settings, app)
    if tools:
        options |= {**tools, **parallel_option(body)}
    return drop_unset(options)
