"""A request in the form of OpenAI's Chat Completions -> messages and options."""

from __future__ import annotations

from typing import Any, Final

from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.protocol.promote import parse_tool_args
from foldline.serve.body import Body
from foldline.serve.settings import Settings
from foldline.serve.wires.media import AUDIO_TYPES, block_of_data, block_of_url
from foldline.serve.wires.options import check_tool_name, effort_of, sampling, stops_of

__all__ = ["decode_content", "decode_messages", "decode_options", "decode_tools"]

Json = Any
REFUSED: Final = ("logprobs", "functions", "function_call", "audio", "prediction")
"""Fields that change the answer and that this server does not give."""


def decode_messages(body: Body, settings: Settings) -> list[BaseMessage]:
    """Return the messages of a request."""
    return [
        _decode_message(item)
        for item in body.objects("messages", most=settings.max_messages, least=1)
    ]


def _decode_message(item: Body) -> BaseMessage:
    role = item.text("role")
    name = item.name("name")
    if role in ("system", "developer"):
        return SystemMessage(decode_content(item, "content"), name=name)
    if role == "user":
        return HumanMessage(decode_content(item, "content"), name=name)
    if role == "tool":
        id = item.name("tool_call_id")
        if id is None:
            raise item.refuse("tool_call_id", "is needed: the id of the call that this answers")
        return ToolMessage(decode_content(item, "content"), tool_call_id=id, name=name)
    if role == "assistant":
        return _decode_assistant(item, name)
    raise item.refuse("role", "must be one of system, developer, user, assistant, tool")


def _decode_assistant(item: Body, name: str | None) -> AIMessage:
    content: Json = ""
    if item.get("content") is not None:
        content = decode_content(item, "content")
    elif item.get("refusal") is not None:
        content = item.text("refusal")
    calls: list[Any] = []
    invalid: list[Any] = []
    for call in item.objects("tool_calls", most=256):
        function = call.object("function")
        if function is None:
            raise call.refuse("function", "is needed")
        text = function.text("arguments", "{}")
        fields = {"id": call.text("id", ""), "name": check_tool_name(function)}
        args = parse_tool_args(text or "{}")
        if isinstance(args, str):
            invalid.append({**fields, "args": text, "error": args, "type": "invalid_tool_call"})
        else:
            calls.append({**fields, "args": args, "type": "tool_call"})
    return AIMessage(content, name=name, tool_calls=calls, invalid_tool_calls=invalid)


def decode_content(item: Body, field: str) -> str | list[Any]:
    """Return the content of a message: a text, or blocks."""
    value = item.get(field)
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise item.refuse(field, "must be a string or a list of parts")
    return [_decode_part(part) for part in item.objects(field, most=1_000)]


def _decode_part(part: Body) -> dict[str, Json]:
    kind = part.text("type")
    if kind == "text":
        return {"type": "text", "text": part.text("text")}
    if kind == "refusal":
        return {"type": "text", "text": part.text("refusal")}
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


def _decode_file(inner: Body) -> dict[str, Json]:
    data = inner.maybe_text("file_data")
    if data is None:
        raise inner.refuse("file_data", "is needed: this server keeps no files")
    if not data.startswith("data:"):
        data = f"data:application/pdf;base64,{data}"
    block = block_of_url(inner, "file_data", data, "file")
    name = inner.maybe_text("filename", longest=512)
    return {**block, "extras": {"filename": name}} if name else block


def decode_options(body: Body, settings: Settings) -> dict[str, Json]:
    """Return the options of a request."""
    for name in REFUSED:
        if body.get(name):
            raise body.refuse(name, "is not supported by this server")
    if (body.whole("n", 1, 128) or 1) > 1:
        raise body.refuse("n", "must be 1: this server gives one answer per request")
    longest = body.whole("max_completion_tokens", 1, 10_000_000)
    options = sampling(body)
    found = {
        "max_tokens": longest if longest is not None else body.whole("max_tokens", 1, 10_000_000),
        "stop": stops_of(body, "stop"),
        "reasoning_effort": effort_of(body, "reasoning_effort"),
        "user": body.maybe_text("user", longest=512),
        "verbosity": body.maybe_text("verbosity", longest=16),
        "response_format": _decode_format(body),
    }
    tools = decode_tools(body, settings)
    if tools:
        found["tools"] = tools
        found["tool_choice"] = _decode_choice(body)
        if body.get("parallel_tool_calls") is not None:
            found["parallel_tool_calls"] = body.flag("parallel_tool_calls")
    options.update({name: value for name, value in found.items() if value is not None})
    return options


def decode_tools(body: Body, settings: Settings) -> list[dict[str, Json]]:
    """Return the client's tools."""
    tools = []
    for tool in body.objects("tools", most=settings.max_tools):
        if tool.text("type", "function") != "function":
            raise tool.refuse("type", "must be function")
        function = tool.object("function")
        if function is None:
            raise tool.refuse("function", "is needed")
        made: dict[str, Json] = {
            "name": check_tool_name(function),
            "description": function.text("description", ""),
            "parameters": function.mapping("parameters") or {"type": "object", "properties": {}},
        }
        if function.get("strict") is not None:
            made["strict"] = function.flag("strict")
        tools.append({"type": "function", "function": made})
    return tools


def _decode_choice(body: Body) -> Json:
    choice = body.get("tool_choice")
    if choice is None or choice in ("auto", "none", "required"):
        return choice
    if isinstance(choice, dict):
        inner = Body(choice, "tool_choice")
        function = inner.object("function")
        if function is not None:
            return {"type": "function", "function": {"name": check_tool_name(function)}}
    raise body.refuse("tool_choice", "must be auto, none, required, or name a function")


def _decode_format(body: Body) -> Json:
    form = body.object("response_format")
    if form is None:
        return None
    kind = form.text("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    if kind == "json_schema":
        inner = form.object("json_schema")
        if inner is None:
            raise form.refuse("json_schema", "is needed")
        described: dict[str, Json] = {
            "name": inner.text("name", "answer", longest=256),
            "schema": inner.mapping("schema"),
        }
        if inner.get("strict") is not None:
            described["strict"] = inner.flag("strict")
        return {"type": "json_schema", "json_schema": described}
    raise form.refuse("type", "must be text, json_object or json_schema")
