"""The tools of a request of OpenAI's Responses, and the form in which their calls go back.

A client runs functions, groups of them (`namespace`), and tools that take a text (`custom`). A model of OpenAI gets its
own forms; for any other model all of them are functions: `namespace__name`, and one argument `input` for a text. Tools
that a provider runs are passed on to a model of that provider, and left out for another one, unless the request needs
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from foldline.protocol.tool_call_parser import parse_tool_args
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._wires.options import check_tool_name
from foldline.serve._wires.request_parts import decode_choice, function_choice, function_tool
from foldline.serve.apps import ServedApp
from foldline.serve.settings import ServeSettings

__all__ = [
    "ToolForm",
    "custom_call",
    "decode_tool_options",
    "full_name",
    "text_of_call",
    "tool_forms",
]

OPENAI: Final = frozenset({"openai", "azure_openai"})
TEXT_FIELD: Final = "input"
NATIVE_TEXT_FIELD: Final = "__arg1"
"""The argument in which our OpenAI models return the text of a call."""
SERVER_TOOLS: Final = frozenset(
    {
        "apply_patch", "code_interpreter", "computer", "computer_use_preview", "file_search", "image_generation",
        "local_shell", "mcp", "shell", "tool_search", "web_search", "web_search_2025_08_26", "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)  # fmt: skip
"""Tools that OpenAI runs, or whose calls only its models make."""


class ToolForm(NamedTuple):
    """What a client calls a tool."""

    name: str
    namespace: str | None = None
    is_custom: bool = False


def full_name(name: str, namespace: str | None) -> str:
    """Return the name of a tool of a group for the model."""
    return name if namespace is None else f"{namespace}__{name}"


def tool_forms(tools: object) -> dict[str, ToolForm]:
    """Return the tools that are not plain functions, by the names that the model knows."""
    forms: dict[str, ToolForm] = {}
    for tool, namespace in _client_tools(tools):
        name = str(tool.get("name"))
        is_custom = tool.get("type") == "custom"
        if is_custom or namespace is not None:
            forms[full_name(name, namespace)] = ToolForm(name, namespace, is_custom)
    return forms


def _client_tools(tools: object) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict):
            continue
        if tool.get("type") == "namespace":
            inner = tool.get("tools")
            for item in inner if isinstance(inner, list) else ():
                if isinstance(item, dict):
                    yield item, str(tool.get("name"))
        else:
            yield tool, None


def decode_tool_options(body: Body, settings: ServeSettings, app: ServedApp) -> JsonObject:
    """Return the options for the tools of a request and their choice."""
    native = app.label.partition(":")[0] in OPENAI
    tools: list[JsonObject] = []
    for tool in body.objects("tools", most=settings.max_tools):
        tools += _decode_tool(tool, body, native=native, most=settings.max_tools)
    if len(tools) > settings.max_tools:
        raise body.refuse("tools", f"must have at most {settings.max_tools} items")
    if not tools:
        return {}
    return {"tools": tools, "tool_choice": _decode_choice(body, tools)}


def _decode_tool(tool: Body, body: Body, *, native: bool, most: int) -> Sequence[JsonObject]:
    kind = tool.text("type", longest=64)
    if kind == "namespace":
        namespace = check_tool_name(tool)
        return [
            _client_tool(inner, namespace, native=native)
            for inner in tool.objects("tools", most=most)
        ]
    if kind in ("function", "custom"):
        return [_client_tool(tool, None, native=native)]
    if native and kind in SERVER_TOOLS:
        return [tool.value]
    choice = body.get("tool_choice")
    if choice in (None, "auto", "none"):
        return []  # the model answers without it, as it may
    raise tool.refuse(
        "type", "must be function, custom or namespace: the served model has no tools of OpenAI"
    )


def _client_tool(tool: Body, namespace: str | None, *, native: bool) -> JsonObject:
    kind = tool.text("type", "function", longest=64)
    name = full_name(check_tool_name(tool), namespace)
    if kind == "function":
        described = function_tool(tool)
        described["function"]["name"] = name
        return described
    if kind != "custom":
        raise tool.refuse("type", "must be function or custom")
    form = tool.object("format")
    if native:
        return {**tool.value, "name": name}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": _with_grammar(tool.text("description", ""), form),
            "parameters": {
                "type": "object",
                "properties": {TEXT_FIELD: {"type": "string"}},
                "required": [TEXT_FIELD],
                "additionalProperties": False,
            },
        },
    }


def _with_grammar(description: str, form: Body | None) -> str:
    if form is None or form.text("type", "text", longest=16) != "grammar":
        return description
    # The definition stands beside its syntax, or in a field of its own.
    grammar = form.object("grammar") or form
    syntax, text = grammar.text("syntax", longest=16), grammar.text("definition")
    return f"{description}\n\nThe input must match this grammar ({syntax}):\n{text}".strip()


def _decode_choice(body: Body, tools: Sequence[JsonObject]) -> object:
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return decode_choice(body, lambda _: None)
    read = Body(choice, "tool_choice")
    kind = read.text("type", longest=64)
    if kind in ("function", "custom"):
        name = full_name(check_tool_name(read), read.maybe_text("namespace", longest=256))
        return function_choice(name)
    if any(tool.get("type") == kind for tool in tools):
        return {"type": kind}
    raise body.refuse("tool_choice", "must be auto, none, required, or name a tool of the request")


def text_of_call(arguments: str) -> str:
    """Return the text for a custom tool from the arguments that the model wrote."""
    args = parse_tool_args(arguments or "{}")
    if not isinstance(args, dict):
        return arguments
    text = args.get(NATIVE_TEXT_FIELD, args.get(TEXT_FIELD))
    return text if isinstance(text, str) else json.dumps(args, ensure_ascii=False)


def custom_call(id: str, name: str, text: str, app: ServedApp) -> JsonObject:
    """Return an earlier call of a custom tool as the model knows it."""
    if app.label.partition(":")[0] in OPENAI:
        call = {"id": id, "name": name, "args": {NATIVE_TEXT_FIELD: text}, "type": "tool_call"}
        return {**call, "extras": {"type": "custom_tool_call"}}
    return {"id": id, "name": name, "args": {TEXT_FIELD: text}, "type": "tool_call"}
