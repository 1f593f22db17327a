"""Encode a request for chat completions: tools, tool choice, output schema, options. Pure.

Messages are in `messages.py`. Unknown options are sent unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from foldline.exceptions import UsageError
from foldline.language_models._call.call_options import read_tool_choice
from foldline.language_models._call.request import ChatRequest
from foldline.providers._completions.host import Host
from foldline.providers._completions.messages import MessageEncoder
from foldline.providers._foreign_messages import ForeignBlocks, add_note
from foldline.providers._tool_memory import remember_tools
from foldline.providers._wire import check_messages, merge_settings
from foldline.utils._schema_open import open_parts
from foldline.utils.function_calling import convert_to_json_schema, convert_to_openai_tool

__all__ = [
    "encode_completion",
    "encode_response_format",
    "encode_tool_choice",
    "encode_tools",
    "schema_format",
]

Body = dict[str, Any]

OPTIONS = frozenset(
    {
        "tools",
        "tool_choice",
        "strict",
        "response_format",
        "parallel_tool_calls",
        "max_tokens",
        "stop",
    }
)
"""Options that are encoded individually."""
ENCODED_OPTIONS = OPTIONS | {"extra_body", "stream_usage"}
FINAL = ("response_format", "stop", "tool_choice", "parallel_tool_calls")


def encode_completion(
    request: ChatRequest,
    host: Host,
    *,
    settings: Mapping[str, Any],
    providers: frozenset[str],
    policy: ForeignBlocks = "convert",
    is_sent: bool = True,
) -> Body:
    """Return the body of a request; options of the call override the model's `settings`.

    A part of a history that is only counted (`is_sent=False`) may lack calls and results.
    """
    if is_sent:
        check_messages(request.messages)
    options = merge_settings(settings, request)
    encoder = MessageEncoder(host, providers, policy, request.notes)
    body: Body = {"model": options.pop("model", None), "messages": encoder.encode(request.messages)}
    body |= _options(options, host, request)
    if options.get("tools") is not None or options.get("tool_choice") is not None:
        body |= _tool_options(options, host, request)
    if request.stream:
        body["stream"] = True
        if host.asks_for_usage and options.get("stream_usage", True):
            body.setdefault("stream_options", {"include_usage": True})
    if request.stream and (body.get("n") or 1) > 1:
        raise UsageError(
            f"n={body['n']} cannot be streamed, for a stream is one message: use invoke or generate"
        )
    if extra := options.get("extra_body"):
        body |= extra
    return body


def _options(options: Body, host: Host, request: ChatRequest) -> Body:
    renames = host.renames
    body = {
        renames.get(name, name): options[name] for name in options if name not in ENCODED_OPTIONS
    }
    limit = options.get("max_tokens")
    if limit is not None:
        body.setdefault(host.max_tokens_field, limit)
    if options.get("stop"):
        body["stop"] = options["stop"]
    if options.get("response_format") is not None:
        encoded = encode_response_format(options["response_format"], host, options.get("strict"))
        body["response_format"] = encoded
        if (
            host.schema_as == "json_object"
            and encoded == {"type": "json_object"} != options["response_format"]
        ):
            add_note(request.notes, f"{host.name} takes no schema: any JSON was asked for")
    return body


def _tool_options(options: Body, host: Host, request: ChatRequest) -> Body:
    body: Body = {}
    tools = encode_tools(options.get("tools") or [], request.notes, host, options.get("strict"))
    if tools or (host.takes_empty_tools and options.get("tools") is not None):
        body["tools"] = tools
    choice = encode_tool_choice(options.get("tool_choice"), tools, host)
    if choice is not None and tools:
        body["tool_choice"] = choice
    parallel = options.get("parallel_tool_calls")
    if parallel is not None and tools:
        if host.takes_parallel_tool_calls:
            body["parallel_tool_calls"] = parallel
        else:
            add_note(request.notes, f"{host.name} does not take parallel_tool_calls")
    return body


@remember_tools
def encode_tools(
    tools: list[Any],
    notes: list[str],
    host: Host,
    strict: bool | None,  # noqa: FBT001  an option's value
) -> list[Body]:
    """Return tools in OpenAI's format."""
    encoded = []
    for tool in tools:
        encoded_tool = convert_to_openai_tool(tool, strict=strict if host.takes_strict else None)
        if not host.takes_strict and isinstance(encoded_tool.get("function"), dict):
            encoded_tool = {
                **encoded_tool,
                "function": {k: v for k, v in encoded_tool["function"].items() if k != "strict"},
            }
        if extras := encoded_tool.pop("extras", None):
            add_note(
                notes,
                f"{host.name} takes no {', '.join(extras)} of the tool {name_of(encoded_tool)!r}",
            )
        if encoded_tool.get("type") == "custom" and "custom" not in encoded_tool:
            custom = {name: value for name, value in encoded_tool.items() if name != "type"}
            encoded_tool = {"type": "custom", "custom": custom}
        encoded.append(encoded_tool)
    if strict and not host.takes_strict and tools:
        add_note(notes, f"{host.name} does not take strict tools")
    return encoded


def encode_tool_choice(choice: object, tools: list[Body], host: Host) -> object:
    """Return a tool choice, in any of the accepted forms, in OpenAI's format."""
    if choice is None:
        return None
    if isinstance(choice, Mapping) and choice.get("type") in {
        tool.get("type") for tool in tools
    } - {"function"}:
        return dict(choice)  # one of the host's server tools
    if isinstance(choice, str) and choice in [tool.get("type") for tool in tools]:
        return {"type": choice}
    tool_choice = read_tool_choice(choice)
    if tool_choice.mode == "required" and not tool_choice.allowed:
        return host.any_tool
    names = [name_of(tool) for tool in tools]
    unknown = [
        name for name in (tool_choice.name, *tool_choice.allowed) if name and name not in names
    ]
    if unknown:
        raise UsageError(
            f"tool_choice={choice!r} is neither auto, none, required nor one of the tools {names}"
        )
    if tool_choice.allowed:
        allowed = [{"type": "function", "function": {"name": name}} for name in tool_choice.allowed]
        return {
            "type": "allowed_tools",
            "allowed_tools": {"mode": tool_choice.mode, "tools": allowed},
        }
    return tool_choice.as_option()


def name_of(tool: Mapping[str, Any]) -> str | None:
    """Return the name of an encoded tool."""
    inner = tool.get("function") or tool.get("custom") or tool
    return inner.get("name")


def schema_format(response_format: object, strict: bool | None) -> Body | None:  # noqa: FBT001
    """Return the name, schema and strict of a response format; None for `text` and `json_object`."""
    if isinstance(response_format, Mapping):
        if isinstance(response_format.get("json_schema"), Mapping):
            return dict(response_format["json_schema"])
        if response_format.get("type") == "json_schema" and "schema" in response_format:
            return {name: value for name, value in response_format.items() if name != "type"}
        if response_format.get("type") in ("text", "json_object", "grammar", "regex"):
            return None
    if strict is None:
        strict = _can_be_strict(response_format)
    schema = dict(convert_to_json_schema(response_format, strict=strict))
    name = str(schema.pop("title", None) or "answer")
    definition: Body = {"name": _plain_name(name), "schema": schema}
    if schema.get("description"):
        definition["description"] = schema.pop("description")
    definition["strict"] = bool(strict)
    return definition


def _can_be_strict(response_format: object) -> bool | None:
    """Return True for a Pydantic model of closed objects; None: not strict, unless the caller sets it."""
    if isinstance(response_format, type) and issubclass(response_format, BaseModel):
        return next(open_parts(response_format.model_json_schema()), None) is None or None
    return None


def _plain_name(name: str) -> str:
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name
    )[:64]


def encode_response_format(response_format: Any, host: Host, strict: bool | None) -> Body:  # noqa: ANN401, FBT001  a class, a JSON Schema or OpenAI's dict
    """Return a response format (OpenAI's dict, a class or a JSON Schema) in OpenAI's format."""
    definition = schema_format(response_format, strict)
    if definition is None:
        return dict(response_format)
    if host.schema_as == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": definition}
