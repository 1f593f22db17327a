"""Decodes requests of Anthropic's Messages into messages and options."""

from __future__ import annotations

from typing import Any

from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._wires.media import block_of_data
from foldline.serve._wires.options import (
    MOST_TOKENS,
    check_tool_name,
    effort_of,
    sampling,
    stops_of,
)
from foldline.serve._wires.request_parts import (
    MOST_PARTS,
    decode_content,
    decode_tools,
    drop_unset,
    function_choice,
    function_tool,
    required_name,
    schema_format,
)
from foldline.serve.settings import ServeSettings

__all__ = ["decode_messages", "decode_options"]


def decode_messages(body: Body, settings: ServeSettings) -> list[BaseMessage]:
    """Return the messages of a request, the system message first."""
    messages: list[BaseMessage] = []
    if body.get("system") is not None:
        messages.append(SystemMessage(_content(body, "system")))
    for item in body.objects("messages", most=settings.max_messages, least=1):
        role = item.text("role")
        if role == "user":
            messages += _decode_user(item)
        elif role == "assistant":
            messages.append(_decode_assistant(item))
        elif role == "system":
            messages.append(SystemMessage(_content(item, "content")))
        else:
            raise item.refuse("role", "must be user, assistant or system")
    return messages


def _content(item: Body, field: str) -> str | list[Any]:
    return decode_content(item, field, _decode_block)


def _parts(item: Body) -> list[Body]:
    if not isinstance(item.get("content"), list):
        raise item.refuse("content", "must be a string or a list of blocks")
    return item.objects("content", most=MOST_PARTS)


def _decode_user(item: Body) -> list[BaseMessage]:
    """Return one message per tool result, then the user's message."""
    if isinstance(item.get("content"), str):
        return [HumanMessage(item.text("content"))]
    results: list[BaseMessage] = []
    blocks: list[Any] = []
    for part in _parts(item):
        if part.text("type") != "tool_result":
            blocks.append(_decode_block(part))
            continue
        content = _content(part, "content") if part.get("content") is not None else ""
        status: Any = "error" if part.flag("is_error") else "success"
        id = required_name(part, "tool_use_id")
        results.append(ToolMessage(content, tool_call_id=id, status=status))
    return [*results, HumanMessage(blocks)] if blocks else results


def _decode_assistant(item: Body) -> AIMessage:
    if isinstance(item.get("content"), str):
        return AIMessage(item.text("content"))
    blocks: list[Any] = []
    calls: list[Any] = []
    for part in _parts(item):
        kind = part.text("type")
        if kind == "tool_use":
            call = {
                "id": part.text("id", "", longest=256),
                "name": check_tool_name(part),
                "args": part.mapping("input"),
                "type": "tool_call",
            }
            calls.append(call)
        elif kind == "thinking":
            signature = part.maybe_text("signature")
            extras = {"extras": {"signature": signature}} if signature else {}
            blocks.append({"type": "reasoning", "reasoning": part.text("thinking"), **extras})
        elif kind != "redacted_thinking":
            blocks.append(_decode_block(part))
    return AIMessage(blocks, tool_calls=calls)


def _decode_block(part: Body) -> JsonObject:
    kind = part.text("type")
    if kind == "text":
        return {"type": "text", "text": part.text("text")}
    if kind in ("image", "document"):
        return _decode_source(part, "image" if kind == "image" else "file")
    raise part.refuse(
        "type", "must be one of text, image, document, tool_use, tool_result, thinking"
    )


def _decode_source(part: Body, kind: str) -> JsonObject:
    source = part.object("source")
    if source is None:
        raise part.refuse("source", "is needed")
    form = source.text("type")
    if form == "base64":
        return block_of_data(source.text("data"), source.text("media_type", longest=128), kind)
    if form == "url":
        url = source.text("url")
        if not url.startswith(("https://", "http://")):
            raise source.refuse("url", "must begin with https:// or http://")
        return {"type": kind, "url": url}
    if form == "text" and kind == "file":
        return {"type": "text-plain", "text": source.text("data"), "mime_type": "text/plain"}
    raise source.refuse("type", "must be base64 or url")


def decode_options(body: Body, settings: ServeSettings, *, counts: bool = False) -> JsonObject:
    """Return the options of a request."""
    longest = body.integer("max_tokens", 1, MOST_TOKENS)
    if longest is None and not counts:
        raise body.refuse("max_tokens", "is needed")
    options: JsonObject = {
        **sampling(body),
        "max_tokens": longest,
        "stop": stops_of(body, "stop_sequences"),
        **_decode_thinking(body),
    }
    tools = decode_tools(body, settings, _decode_tool)
    if tools:
        options |= {"tools": tools, **_decode_choice(body)}
    return drop_unset(options)


def _decode_tool(tool: Body) -> JsonObject:
    if tool.text("type", "custom") != "custom":
        raise tool.refuse("type", "must be custom: tools that Anthropic runs are not offered here")
    return function_tool(tool, "input_schema")


def _decode_choice(body: Body) -> JsonObject:
    choice = body.object("tool_choice")
    if choice is None:
        return {}
    options: JsonObject = {}
    if choice.flag("disable_parallel_tool_use"):
        options["parallel_tool_calls"] = False
    kind = choice.text("type")
    if kind in ("auto", "none"):
        options["tool_choice"] = kind
    elif kind == "any":
        options["tool_choice"] = "required"
    elif kind == "tool":
        options["tool_choice"] = function_choice(check_tool_name(choice))
    else:
        raise choice.refuse("type", "must be auto, any, tool or none")
    return options


def _decode_thinking(body: Body) -> JsonObject:
    options: JsonObject = {}
    thinking = body.object("thinking")
    if thinking is not None and thinking.text("type") in ("enabled", "adaptive"):
        budget = thinking.integer("budget_tokens", 1, MOST_TOKENS)
        options["reasoning_effort"] = budget if budget is not None else "medium"
    output = body.object("output_config")
    if output is not None:
        effort = effort_of(output, "effort")
        if effort is not None:
            options["reasoning_effort"] = effort
    form = output.object("format") if output is not None else None
    form = form or body.object("output_format")
    if form is not None and form.text("type") == "json_schema":
        options["response_format"] = schema_format(form)
    return options
