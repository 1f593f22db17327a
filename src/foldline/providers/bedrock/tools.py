"""Encode tools, the tool choice and the output schema for Converse. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.language_models._call.call_options import ToolChoice
from foldline.language_models._call.policies.prompt_caching import CONTROL, cache_control_of
from foldline.providers._foreign_messages import add_note
from foldline.providers._wire import dump_text
from foldline.providers.bedrock._blocks import with_cache_point
from foldline.providers.bedrock._wire import Block
from foldline.utils._schema_open import USE_A_TOOL, check_objects
from foldline.utils.function_calling import (
    convert_to_json_schema,
    convert_to_openai_tool,
    is_server_tool,
)

__all__ = []

Schema = dict[str, Any]

EMPTY_SCHEMA: Final[Schema] = {"type": "object", "properties": {}}
FREE_TEXT: Final[Schema] = {
    "type": "object",
    "properties": {"__arg1": {"type": "string"}},
    "required": ["__arg1"],
}
NATIVE_KEYS: Final = frozenset({"toolSpec", "systemTool", "cachePoint"})


def encode_tools(
    tools: list[Any],
    strict: bool | None,  # noqa: FBT001
    notes: list[str],
) -> tuple[list[Block], list[Block]]:
    """Return the tools for Converse, and those that are passed to the model (Anthropic's server tools)."""
    encoded: list[Block] = []
    model_tools: list[Block] = []
    for tool in tools:
        if isinstance(tool, Mapping) and NATIVE_KEYS & tool.keys():
            encoded.append(dict(tool))
        elif isinstance(tool, Mapping) and is_server_tool(tool):
            model_tools.append(dict(tool))
        else:
            encoded.append(_encode_tool(tool, strict, notes))
    return encoded, model_tools


def _encode_tool(tool: object, strict: bool | None, notes: list[str]) -> Block:  # noqa: FBT001
    openai_tool = convert_to_openai_tool(tool)
    if openai_tool.get("type") == "custom":
        function = openai_tool.get("custom", openai_tool)
        schema = FREE_TEXT
        add_note(
            notes, f"the tool {function.get('name')!r} takes free text: sent with one argument"
        )
    else:
        function = openai_tool["function"]
        schema = {**EMPTY_SCHEMA, **(function.get("parameters") or {})}
    is_strict = function.get("strict") if strict is None else strict
    if is_strict:
        check_objects(schema, function["name"], "a strict tool", "leave out strict")
    spec: Block = {"name": function["name"]}
    if function.get("description"):
        spec["description"] = function["description"]
    spec["inputSchema"] = {"json": close_objects(schema) if is_strict else schema}
    if is_strict is not None:
        spec["strict"] = is_strict
    encoded: Block = {"toolSpec": spec}
    if control := cache_control_of(tool):
        encoded[CONTROL] = control
    return encoded


def add_cache_points(tools: list[Block]) -> list[Block]:
    """Return tools with a cache point after each that has a `cache_control`."""
    return [
        part
        for tool in tools
        for part in with_cache_point({k: v for k, v in tool.items() if k != CONTROL}, tool)
    ]


def encode_tool_choice(choice: ToolChoice, names: list[str]) -> Block:
    """Return a tool choice in Bedrock's format."""
    if choice.mode == "tool":
        if choice.name not in names:
            raise UsageError(
                f"tool_choice={choice.name!r} is neither auto, any, none nor one of the tools {names}"
            )
        return {"tool": {"name": choice.name}}
    return {"any": {}} if choice.mode == "required" else {"auto": {}}


# -- the schema of an answer


def encode_output_format(option: object, notes: list[str]) -> Block | None:
    """Return the format of the answer; None if only the prompt can ask for it."""
    kind = option.get("type") if isinstance(option, Mapping) else None
    if kind == "json_object":
        add_note(notes, "Bedrock has no JSON mode: only the prompt asks for JSON")
    if kind in ("text", "json_object"):
        return None
    name, description, schema = _read_schema(option)
    check_objects(schema, name, "Bedrock's response format", USE_A_TOOL)
    definition: Block = {"schema": dump_text(close_objects(schema))}
    if name:
        definition["name"] = name
    if description:
        definition["description"] = description
    return {"type": "json_schema", "structure": {"jsonSchema": definition}}


def _read_schema(option: object) -> tuple[str | None, str | None, Schema]:
    """Return the name, description and schema of a response format, a class or a JSON Schema."""
    inner = option.get("json_schema", option) if isinstance(option, Mapping) else option
    if isinstance(inner, Mapping) and isinstance(inner.get("schema"), Mapping):
        return inner.get("name"), inner.get("description"), dict(inner["schema"])
    if isinstance(inner, Mapping) and not inner.keys() & {"name", "function", "parameters"}:
        schema = dict(inner)
    else:
        schema = convert_to_json_schema(inner)
    title, description = schema.get("title"), schema.get("description")
    return title, description, schema


def close_objects(schema: object) -> object:
    """Return a schema whose objects allow no additional properties, as required for enforced schemas."""
    if isinstance(schema, list):
        return [close_objects(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed: Schema = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            closed[key] = {name: close_objects(part) for name, part in value.items()}
        else:
            is_data = key in ("default", "const", "enum", "examples")
            closed[key] = value if is_data else close_objects(value)
    if closed.get("type") == "object" or "properties" in closed:
        closed["additionalProperties"] = False
    return closed
