"""A request in the form of OpenAI's Responses -> messages and options."""

from __future__ import annotations

from typing import Any

from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.protocol.promote import parse_tool_args
from foldline.serve.body import Body
from foldline.serve.settings import Settings
from foldline.serve.wires.media import block_of_url
from foldline.serve.wires.options import check_tool_name, effort_of, sampling

__all__ = ["decode_items", "decode_options"]

Json = Any


def decode_items(body: Body, settings: Settings) -> list[BaseMessage]:
    """Return the input items of a request as messages; calls of one turn are one message."""
    value = body.get("input")
    if isinstance(value, str):
        return [HumanMessage(value)]
    found: list[BaseMessage] = []
    for item in body.objects("input", most=settings.max_messages):
        _add_item(item, found)
    return found


def _add_item(item: Body, found: list[BaseMessage]) -> None:
    kind = item.text("type", "message")
    if kind == "message":
        found.append(_decode_message(item))
    elif kind == "function_call":
        last = found[-1] if found and isinstance(found[-1], AIMessage) else None
        if last is None:
            found.append(AIMessage(""))
        _add_call(item, found)
    elif kind == "function_call_output":
        id = item.name("call_id")
        if id is None:
            raise item.refuse("call_id", "is needed")
        found.append(ToolMessage(_decode_content(item, "output"), tool_call_id=id))
    elif kind == "reasoning":
        _add_reasoning(item, found)
    else:
        raise item.refuse(
            "type", "must be message, function_call, function_call_output or reasoning"
        )


def _add_call(item: Body, found: list[BaseMessage]) -> None:
    last: Any = found[-1]
    text = item.text("arguments", "{}")
    fields = {"id": item.text("call_id", "", longest=256), "name": check_tool_name(item)}
    args = parse_tool_args(text or "{}")
    calls, invalid = list(last.tool_calls), list(last.invalid_tool_calls)
    if isinstance(args, str):
        invalid.append({**fields, "args": text, "error": args, "type": "invalid_tool_call"})
    else:
        calls.append({**fields, "args": args, "type": "tool_call"})
    found[-1] = AIMessage(last.content, tool_calls=calls, invalid_tool_calls=invalid)


def _add_reasoning(item: Body, found: list[BaseMessage]) -> None:
    parts = [part.text("text", "") for part in item.objects("summary", most=100)]
    if parts:
        found.append(AIMessage([{"type": "reasoning", "reasoning": "\n".join(parts)}]))


def _decode_message(item: Body) -> BaseMessage:
    role = item.text("role")
    content = _decode_content(item, "content")
    if role in ("system", "developer"):
        return SystemMessage(content)
    if role == "user":
        return HumanMessage(content)
    if role == "assistant":
        return AIMessage(content)
    raise item.refuse("role", "must be user, assistant, system or developer")


def _decode_content(item: Body, field: str) -> str | list[Any]:
    value = item.get(field)
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise item.refuse(field, "must be a string or a list of parts")
    return [_decode_part(part) for part in item.objects(field, most=1_000)]


def _decode_part(part: Body) -> dict[str, Json]:
    kind = part.text("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part.text("text")}
    if kind == "refusal":
        return {"type": "text", "text": part.text("refusal")}
    if kind == "input_image":
        url = part.maybe_text("image_url")
        if url is None:
            raise part.refuse("image_url", "is needed: this server keeps no files")
        return block_of_url(part, "image_url", url, "image")
    if kind == "input_file":
        url = part.maybe_text("file_url") or part.maybe_text("file_data")
        if url is None:
            raise part.refuse("file_data", "is needed: this server keeps no files")
        if not url.startswith(("data:", "http://", "https://")):
            url = f"data:application/pdf;base64,{url}"
        block = block_of_url(part, "file_data", url, "file")
        name = part.maybe_text("filename", longest=512)
        return {**block, "extras": {"filename": name}} if name else block
    raise part.refuse("type", "must be input_text, output_text, input_image or input_file")


def decode_options(body: Body, settings: Settings) -> dict[str, Json]:
    """Return the options of a request."""
    for name in ("background", "prompt", "conversation"):
        if body.get(name):
            raise body.refuse(name, "is not supported by this server")
    reasoning = body.object("reasoning")
    text = body.object("text")
    options = sampling(body)
    found: dict[str, Json] = {
        "max_tokens": body.whole("max_output_tokens", 1, 10_000_000),
        "reasoning_effort": effort_of(reasoning, "effort") if reasoning is not None else None,
        "verbosity": text.maybe_text("verbosity", longest=16) if text is not None else None,
        "response_format": _decode_format(text),
        "user": body.maybe_text("user", longest=512),
    }
    tools = [_decode_tool(tool) for tool in body.objects("tools", most=settings.max_tools)]
    if tools:
        found["tools"] = tools
        found["tool_choice"] = _decode_choice(body)
        if body.get("parallel_tool_calls") is not None:
            found["parallel_tool_calls"] = body.flag("parallel_tool_calls")
    options.update({name: value for name, value in found.items() if value is not None})
    return options


def _decode_tool(tool: Body) -> dict[str, Json]:
    if tool.text("type") != "function":
        raise tool.refuse("type", "must be function: tools that OpenAI runs are not offered here")
    made: dict[str, Json] = {
        "name": check_tool_name(tool),
        "description": tool.text("description", ""),
        "parameters": tool.mapping("parameters") or {"type": "object", "properties": {}},
    }
    if tool.get("strict") is not None:
        made["strict"] = tool.flag("strict")
    return {"type": "function", "function": made}


def _decode_choice(body: Body) -> Json:
    choice = body.get("tool_choice")
    if choice is None or choice in ("auto", "none", "required"):
        return choice
    if isinstance(choice, dict):
        name = check_tool_name(Body(choice, "tool_choice"))
        return {"type": "function", "function": {"name": name}}
    raise body.refuse("tool_choice", "must be auto, none, required, or name a function")


def _decode_format(text: Body | None) -> Json:
    form = text.object("format") if text is not None else None
    if form is None:
        return None
    kind = form.text("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    if kind != "json_schema":
        raise form.refuse("type", "must be text, json_object or json_schema")
    described: dict[str, Json] = {
        "name": form.text("name", "answer", longest=256),
        "schema": form.mapping("schema"),
    }
    if form.get("strict") is not None:
        described["strict"] = form.flag("strict")
    return {"type": "json_schema", "json_schema": described}
