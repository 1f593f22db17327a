"""A request in the form of Anthropic's Messages -> messages and options."""

from __future__ import annotations

from typing import Any

from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.serve.body import Body
from foldline.serve.settings import Settings
from foldline.serve.wires.media import block_of_data
from foldline.serve.wires.options import check_tool_name, effort_of, sampling, stops_of

__all__ = ["decode_messages", "decode_options"]

Json = Any


def decode_messages(body: Body, settings: Settings) -> list[BaseMessage]:
    """Return the messages of a request, the system's first."""
    found: list[BaseMessage] = []
    if body.get("system") is not None:
        found.append(SystemMessage(_decode_content(body, "system")))
    for item in body.objects("messages", most=settings.max_messages, least=1):
        role = item.text("role")
        if role == "user":
            found += _decode_user(item)
        elif role == "assistant":
            found.append(_decode_assistant(item))
        elif role == "system":
            found.append(SystemMessage(_decode_content(item, "content")))
        else:
            raise item.refuse("role", "must be user, assistant or system")
    return found


def _decode_content(item: Body, field: str) -> str | list[Any]:
    value = item.get(field)
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise item.refuse(field, "must be a string or a list of blocks")
    return [_decode_block(part) for part in item.objects(field, most=1_000)]


def _decode_user(item: Body) -> list[BaseMessage]:
    """Results of tools are messages of their own; what a person says comes after them."""
    if isinstance(item.get("content"), str):
        return [HumanMessage(item.text("content"))]
    found: list[BaseMessage] = []
    own: list[Any] = []
    if not isinstance(item.get("content"), list):
        raise item.refuse("content", "must be a string or a list of blocks")
    for part in item.objects("content", most=1_000):
        if part.text("type") != "tool_result":
            own.append(_decode_block(part))
            continue
        id = part.name("tool_use_id")
        if id is None:
            raise part.refuse("tool_use_id", "is needed")
        content = _decode_content(part, "content") if part.get("content") is not None else ""
        status: Any = "error" if part.flag("is_error") else "success"
        found.append(ToolMessage(content, tool_call_id=id, status=status))
    if own:
        found.append(HumanMessage(own))
    return found


def _decode_assistant(item: Body) -> AIMessage:
    if isinstance(item.get("content"), str):
        return AIMessage(item.text("content"))
    blocks: list[Any] = []
    calls: list[Any] = []
    if not isinstance(item.get("content"), list):
        raise item.refuse("content", "must be a string or a list of blocks")
    for part in item.objects("content", most=1_000):
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


def _decode_block(part: Body) -> dict[str, Json]:
    kind = part.text("type")
    if kind == "text":
        return {"type": "text", "text": part.text("text")}
    if kind in ("image", "document"):
        return _decode_source(part, "image" if kind == "image" else "file")
    raise part.refuse(
        "type", "must be one of text, image, document, tool_use, tool_result, thinking"
    )


def _decode_source(part: Body, kind: str) -> dict[str, Json]:
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


def decode_options(body: Body, settings: Settings, *, counts: bool = False) -> dict[str, Json]:
    """Return the options of a request."""
    longest = body.whole("max_tokens", 1, 10_000_000)
    if longest is None and not counts:
        raise body.refuse("max_tokens", "is needed")
    options = sampling(body)
    found: dict[str, Json] = {
        "max_tokens": longest,
        "stop": stops_of(body, "stop_sequences"),
        **_decode_thinking(body),
    }
    tools = [
        {
            "type": "function",
            "function": {
                "name": check_tool_name(tool),
                "description": tool.text("description", ""),
                "parameters": tool.mapping("input_schema") or {"type": "object", "properties": {}},
            },
        }
        for tool in body.objects("tools", most=settings.max_tools)
        if _is_custom(tool)
    ]
    if tools:
        found |= {"tools": tools, **_decode_choice(body)}
    options.update({name: value for name, value in found.items() if value is not None})
    return options


def _is_custom(tool: Body) -> bool:
    if tool.text("type", "custom") != "custom":
        raise tool.refuse("type", "must be custom: tools that Anthropic runs are not offered here")
    return True


def _decode_choice(body: Body) -> dict[str, Json]:
    choice = body.object("tool_choice")
    if choice is None:
        return {}
    made: dict[str, Json] = {}
    if choice.flag("disable_parallel_tool_use"):
        made["parallel_tool_calls"] = False
    kind = choice.text("type")
    if kind in ("auto", "none"):
        made["tool_choice"] = kind
    elif kind == "any":
        made["tool_choice"] = "required"
    elif kind == "tool":
        name = check_tool_name(choice)
        made["tool_choice"] = {"type": "function", "function": {"name": name}}
    else:
        raise choice.refuse("type", "must be auto, any, tool or none")
    return made


def _decode_thinking(body: Body) -> dict[str, Json]:
    made: dict[str, Json] = {}
    thinking = body.object("thinking")
    if thinking is not None and thinking.text("type") in ("enabled", "adaptive"):
        budget = thinking.whole("budget_tokens", 1, 10_000_000)
        made["reasoning_effort"] = budget if budget is not None else "medium"
    output = body.object("output_config")
    if output is not None:
        effort = effort_of(output, "effort")
        if effort is not None:
            made["reasoning_effort"] = effort
    form = output.object("format") if output is not None else None
    form = form or body.object("output_format")
    if form is not None and form.text("type") == "json_schema":
        described = {"name": "answer", "schema": form.mapping("schema")}
        made["response_format"] = {"type": "json_schema", "json_schema": described}
    return made
