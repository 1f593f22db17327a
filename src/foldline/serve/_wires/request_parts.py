"""Decodes the parts of requests that several wires share: content, tool calls, tools, choices, formats, options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from foldline.protocol.tool_call_parser import parse_tool_args
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._wires.options import check_tool_name
from foldline.serve.settings import ServeSettings

__all__ = [
    "MOST_PARTS",
    "decode_call",
    "decode_choice",
    "decode_content",
    "decode_format",
    "decode_tools",
    "drop_unset",
    "function_choice",
    "function_tool",
    "parallel_option",
    "required_name",
    "schema_format",
]

MOST_PARTS: Final = 1_000
EMPTY_SCHEMA: Final = {"type": "object", "properties": {}}


def decode_content(
    item: Body, field: str, decode_part: Callable[[Body], JsonObject]
) -> str | list[Any]:
    """Return the content of a message: a string, or blocks."""
    if isinstance(item.get(field), str):
        return item.text(field)
    if not isinstance(item.get(field), list):
        raise item.refuse(field, "must be a string or a list of parts")
    return [decode_part(part) for part in item.objects(field, most=MOST_PARTS)]


def required_name(item: Body, field: str, sentence: str = "is needed") -> str:
    """Return a name; raise `ServeError` where it is absent."""
    name = item.name(field)
    if name is None:
        raise item.refuse(field, sentence)
    return name


def decode_call(id: str, name: str, text: str) -> JsonObject:
    """Return a tool call with arguments from JSON text: an `invalid_tool_call` where they are not an object."""
    args = parse_tool_args(text or "{}")
    if isinstance(args, str):
        return {"id": id, "name": name, "args": text, "error": args, "type": "invalid_tool_call"}
    return {"id": id, "name": name, "args": args, "type": "tool_call"}


def function_tool(body: Body, schema_field: str = "parameters") -> JsonObject:
    """Return a client's tool in OpenAI's form."""
    function: JsonObject = {
        "name": check_tool_name(body),
        "description": body.text("description", ""),
        "parameters": body.mapping(schema_field) or EMPTY_SCHEMA,
    }
    if body.get("strict") is not None:
        function["strict"] = body.flag("strict")
    return {"type": "function", "function": function}


def decode_tools(
    body: Body, settings: ServeSettings, decode_tool: Callable[[Body], JsonObject]
) -> list[JsonObject]:
    """Return the client's tools."""
    return [decode_tool(tool) for tool in body.objects("tools", most=settings.max_tools)]


def function_choice(name: str) -> JsonObject:
    """Return the choice of one tool in OpenAI's form."""
    return {"type": "function", "function": {"name": name}}


def decode_choice(body: Body, name_of: Callable[[Body], str | None]) -> object:
    """Return OpenAI's tool choice: a string, or a function whose name `name_of` reads."""
    choice = body.get("tool_choice")
    if choice is None or choice in ("auto", "none", "required"):
        return choice
    name = name_of(Body(choice, "tool_choice")) if isinstance(choice, dict) else None
    if name is None:
        raise body.refuse("tool_choice", "must be auto, none, required, or name a function")
    return function_choice(name)


def parallel_option(body: Body) -> JsonObject:
    """Return the option for parallel tool calls, where the request sets it."""
    if body.get("parallel_tool_calls") is None:
        return {}
    return {"parallel_tool_calls": body.flag("parallel_tool_calls")}


def schema_format(body: Body) -> JsonObject:
    """Return the format of an answer that fits a JSON schema."""
    described: JsonObject = {
        "name": body.text("name", "answer", longest=256),
        "schema": body.mapping("schema"),
    }
    if body.get("strict") is not None:
        described["strict"] = body.flag("strict")
    return {"type": "json_schema", "json_schema": described}


def decode_format(form: Body | None, described_in: str | None = None) -> JsonObject | None:
    """Return the format of an answer; the schema is in the field `described_in`, or next to the type."""
    kind = form.text("type") if form is not None else "text"
    if form is None or kind == "text":
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    if kind != "json_schema":
        raise form.refuse("type", "must be text, json_object or json_schema")
    described = form.object(described_in) if described_in is not None else form
    if described is None:
        raise form.refuse(str(described_in), "is needed")
    return schema_format(described)


def drop_unset(options: Mapping[str, Any]) -> JsonObject:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}
