"""foldline -> chat completions: messages, tools, choice of tool, schema of the answer. Pure.

Messages are in `messages.py`; this file writes the rest of the body. An option nobody here knows is passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from foldline.exceptions import UsageError
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.policies.call_options import read_tool_choice
from foldline.providers._completions.host import Host
from foldline.providers._completions.messages import MessageEncoder
from foldline.providers._foreign import ForeignBlocks, add_note
from foldline.providers._tool_memory import remember_tools
from foldline.providers._wire import check_tool_results, merge_settings
from foldline.utils.function_calling import convert_to_json_schema, convert_to_openai_tool

__all__ = [
    "encode_completion",
    "encode_response_format",
    "encode_tool_choice",
    "encode_tools",
    "schema_format",
]

Body = dict[str, Any]

OURS = frozenset(
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
"""Options that are written here, not passed on."""
WRITTEN_HERE = OURS | {"extra_body", "stream_usage"}
FINAL = ("response_format", "stop", "tool_choice", "parallel_tool_calls")


def encode_completion(
    request: ChatRequest,
    host: Host,
    *,
    settings: Mapping[str, Any],
    providers: frozenset[str],
    policy: ForeignBlocks = "convert",
) -> Body:
    """Return the body of a request; `settings` are the model's own, which options of the call overrule."""
    check_tool_results(request.messages)
    said = merge_settings(settings, request)
    encoder = MessageEncoder(host, providers, policy, request.notes)
    body: Body = {"model": said.pop("model", None), "messages": encoder.encode(request.messages)}
    body |= _options(said, host, request)
    if said.get("tools") is not None or said.get("tool_choice") is not None:
        body |= _tool_options(said, host, request)
    if request.stream:
        body["stream"] = True
        if host.asks_for_usage and said.get("stream_usage", True):
            body.setdefault("stream_options", {"include_usage": True})
    if request.stream and (body.get("n") or 1) > 1:
        raise UsageError(
            f"n={body['n']} cannot be streamed, for a stream is one message: use invoke or generate"
        )
    if extra := said.get("extra_body"):
        body |= extra
    return body


def _options(said: Body, host: Host, request: ChatRequest) -> Body:
    renames = host.renames
    body = {renames.get(name, name): said[name] for name in said if name not in WRITTEN_HERE}
    limit = said.get("max_tokens")
    if limit is not None:
        body.setdefault(host.max_tokens_field, limit)
    if said.get("stop"):
        body["stop"] = said["stop"]
    if said.get("response_format") is not None:
        given = encode_response_format(said["response_format"], host, said.get("strict"))
        body["response_format"] = given
        if (
            host.schema_as == "json_object"
            and given == {"type": "json_object"} != said["response_format"]
        ):
            add_note(request.notes, f"{host.name} takes no schema: any JSON was asked for")
    return body


def _tool_options(said: Body, host: Host, request: ChatRequest) -> Body:
    body: Body = {}
    tools = encode_tools(said.get("tools") or [], request.notes, host, said.get("strict"))
    if tools or (host.takes_empty_tools and said.get("tools") is not None):
        body["tools"] = tools
    choice = encode_tool_choice(said.get("tool_choice"), tools, host)
    if choice is not None and tools:
        body["tool_choice"] = choice
    parallel = said.get("parallel_tool_calls")
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
    strict: bool | None,  # noqa: FBT001  as options carry it
) -> list[Body]:
    """Describe tools as the wire wants them."""
    encoded = []
    for tool in tools:
        described = convert_to_openai_tool(tool, strict=strict if host.takes_strict else None)
        if not host.takes_strict and isinstance(described.get("function"), dict):
            described = {
                **described,
                "function": {k: v for k, v in described["function"].items() if k != "strict"},
            }
        if extras := described.pop("extras", None):
            add_note(
                notes,
                f"{host.name} takes no {', '.join(extras)} of the tool {name_of(described)!r}",
            )
        if described.get("type") == "custom" and "custom" not in described:
            rest = {name: value for name, value in described.items() if name != "type"}
            described = {"type": "custom", "custom": rest}
        encoded.append(described)
    if strict and not host.takes_strict and tools:
        add_note(notes, f"{host.name} does not take strict tools")
    return encoded


def encode_tool_choice(choice: object, tools: list[Body], host: Host) -> object:
    """Read every way to say which tool must be called."""
    if choice is None:
        return None
    if isinstance(choice, Mapping) and choice.get("type") in {
        tool.get("type") for tool in tools
    } - {"function"}:
        return dict(choice)  # one of the host's own tools
    if isinstance(choice, str) and choice in [tool.get("type") for tool in tools]:
        return {"type": choice}
    chosen = read_tool_choice(choice)
    if chosen.mode == "required" and not chosen.allowed:
        return host.any_tool
    names = [name_of(tool) for tool in tools]
    unknown = [name for name in (chosen.name, *chosen.allowed) if name and name not in names]
    if unknown:
        raise UsageError(
            f"tool_choice={choice!r} is neither auto, none, required nor one of the tools {names}"
        )
    if chosen.allowed:
        named = [{"type": "function", "function": {"name": name}} for name in chosen.allowed]
        return {"type": "allowed_tools", "allowed_tools": {"mode": chosen.mode, "tools": named}}
    return chosen.as_option()


def name_of(tool: Mapping[str, Any]) -> str | None:
    """Return the name of an encoded tool."""
    inner = tool.get("function") or tool.get("custom") or tool
    return inner.get("name")


def schema_format(given: object, strict: bool | None) -> Body | None:  # noqa: FBT001
    """Read a schema of the answer as name, schema and strict; None for `text` and `json_object`."""
    if isinstance(given, Mapping):
        if isinstance(given.get("json_schema"), Mapping):
            return dict(given["json_schema"])
        if given.get("type") == "json_schema" and "schema" in given:
            return {name: value for name, value in given.items() if name != "type"}
        if given.get("type") in ("text", "json_object", "grammar", "regex"):
            return None
    is_model = isinstance(given, type) and issubclass(given, BaseModel)
    schema = convert_to_json_schema(given, strict=True if strict is None and is_model else strict)
    schema = dict(schema)
    name = str(schema.pop("title", None) or "answer")
    described: Body = {"name": _plain_name(name), "schema": schema}
    if schema.get("description"):
        described["description"] = schema.pop("description")
    described["strict"] = True if strict is None and is_model else bool(strict)
    return described


def _plain_name(name: str) -> str:
    return "".join(
        char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name
    )[:64]


def encode_response_format(given: Any, host: Host, strict: bool | None) -> Body:  # noqa: ANN401, FBT001  a class, a JSON Schema or OpenAI's dict
    """Ask for an answer of a certain form: OpenAI's dicts, a class, or a JSON Schema."""
    described = schema_format(given, strict)
    if described is None:
        return dict(given)
    if host.schema_as == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": described}
