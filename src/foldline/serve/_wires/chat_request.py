"""Decodes requests of OpenAI's Chat Completions into messages and options."""

from __future__ import annotations

from typing import Any, Final

from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._wires.media import AUDIO_TYPES, block_of_data, block_of_url
from foldline.serve._wires.options import (
    MOST_TOKENS,
    check_tool_name,
    effort_of,
    sampling,
    stops_of,
)
from foldline.serve._wires.request_parts import (
    decode_call,
    decode_choice,
    decode_content,
    decode_format,
    decode_tools,
    drop_unset,
    function_tool,
    parallel_option,
    required_name,
)
from foldline.serve.settings import ServeSettings

__all__ = ["decode_messages", "decode_options"]

UNSUPPORTED_FIELDS: Final = ("functions", "function_call", "audio", "prediction")
"""Fields that would change the answer and that this server does not support."""
MOST_LOGPROBS: Final = 20


def decode_messages(body: Body, settings: ServeSettings) -> list[BaseMessage]:
    """Return the messages of a request."""
    items = body.objects("messages", most=settings.max_messages, least=1)
    return [_decode_message(item) for item in items]


def _decode_message(item: Body) -> BaseMessage:
    role = item.text("role")
    name = item.name("name")
    if role in ("system", "developer"):
        return SystemMessage(_content(item), name=name)
    if role == "user":
        return HumanMessage(_content(item), name=name)
    if role == "tool":
        id = required_name(item, "tool_call_id", "is needed: the id of the call that this answers")
        return ToolMessage(_content(item), tool_call_id=id, name=name)
    if role == "assistant":
        return _decode_assistant(item, name)
    raise item.refuse("role", "must be one of system, developer, user, assistant, tool")


def _content(item: Body) -> str | list[Any]:
    return decode_content(item, "content", _decode_part)


def _decode_assistant(item: Body, name: str | None) -> AIMessage:
    content: str | list[Any] = ""
    if item.get("content") is not None:
        content = _content(item)
    if item.get("refusal") is not None:
        parts = [content] if isinstance(content, str) and content else list(content)
        content = [*parts, {"type": "refusal", "refusal": item.text("refusal")}]
    calls = [_decode_call(call) for call in item.objects("tool_calls", most=256)]
    valid: list[Any] = [call for call in calls if call["type"] == "tool_call"]
    invalid: list[Any] = [call for call in calls if call["type"] != "tool_call"]
    return AIMessage(content, name=name, tool_calls=valid, invalid_tool_calls=invalid)


def _decode_call(call: Body) -> JsonObject:
    function = _function(call)
    text = function.text("arguments", "{}")
    return decode_call(call.text("id", ""), check_tool_name(function), text)


def _function(body: Body) -> Body:
    function = body.object("function")
    if function is None:
        raise body.refuse("function", "is needed")
    return function


def _decode_part(part: Body) -> JsonObject:
    kind = part.text("type")
    if kind == "text":
        return {"type": "text", "text": part.text("text")}
    if kind == "refusal":
        return {"type": "refusal", "refusal": part.text("refusal")}
    if kind == "image_url":
        inner = part.object("image_url")
        if inner is None:
            raise part.refuse("image_url", "is needed")
        block = block_of_url(inner, "url", inner.text("url"), "image")
        detail = inner.maybe_text("detail", longest=16)
        return {**block, "extras": {"detail": detail}} if detail else block
    if kind == "input_audio":
        inner = part.object("input_audio") or part
        form = inner.text("format", "wav", longest=16)
        return block_of_data(inner.text("data"), AUDIO_TYPES.get(form, f"audio/{form}"), "audio")
    if kind == "file":
        return _decode_file(part.object("file") or part)
    raise part.refuse("type", "must be one of text, image_url, input_audio, file, refusal")


def _decode_file(inner: Body) -> JsonObject:
    data = inner.maybe_text("file_data")
    if data is None:
        raise inner.refuse("file_data", "is needed: this server keeps no files")
    if not data.startswith("data:"):
        data = f"data:application/pdf;base64,{data}"
    block = block_of_url(inner, "file_data", data, "file")
    name = inner.maybe_text("filename", longest=512)
    return {**block, "extras": {"filename": name}} if name else block


def decode_options(body: Body, settings: ServeSettings) -> JsonObject:
    """Return the options of a request."""
    for name in UNSUPPORTED_FIELDS:
        if body.get(name):
            raise body.refuse(name, "is not supported by this server")
    longest = body.integer("max_completion_tokens", 1, MOST_TOKENS)
    options: JsonObject = {
        **sampling(body),
        "max_tokens": longest
        if longest is not None
        else body.integer("max_tokens", 1, MOST_TOKENS),
        "stop": stops_of(body, "stop"),
        "reasoning_effort": effort_of(body, "reasoning_effort"),
        "user": body.maybe_text("user", longest=512),
        "verbosity": body.maybe_text("verbosity", longest=16),
        "response_format": decode_format(body.object("response_format"), "json_schema"),
        **_decode_logprobs(body),
    }
    tools = decode_tools(body, settings, _decode_tool)
    if tools:
        options["tools"] = tools
        options["tool_choice"] = decode_choice(body, _name_of_choice)
        options |= parallel_option(body)
    return drop_unset(options)


def _decode_logprobs(body: Body) -> JsonObject:
    count = body.integer("top_logprobs", 0, MOST_LOGPROBS)
    if not body.flag("logprobs"):
        if count:
            raise body.refuse("top_logprobs", "needs logprobs: true")
        return {}
    return {"logprobs": True, "top_logprobs": count}


def _decode_tool(tool: Body) -> JsonObject:
    if tool.text("type", "function") != "function":
        raise tool.refuse("type", "must be function")
    return function_tool(_function(tool))


def _name_of_choice(choice: Body) -> str | None:
    function = choice.object("function")
    return check_tool_name(function) if function is not None else None
