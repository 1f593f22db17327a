"""Describes functions and tools in the form that models take.

Functions, pydantic models, TypedDicts, dataclasses, tools, JSON Schemas and the tool dicts of OpenAI, Anthropic,
Bedrock and MCP become one description: name, description, parameters. Dicts for tools that the provider runs (web
search and the like) are passed on unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from foldline._lazy import forward_names
from foldline.exceptions import UsageError
from foldline.utils._docstrings import parse_docstring
from foldline.utils._schema_open import check_closable
from foldline.utils._signature_schema import (
    is_typed_dict,
    model_from_function,
    model_from_typed_dict,
    name_and_doc,
    own_doc,
    schema_of_type,
)
from foldline.utils.json_schema import inline_refs, remove_titles, strict_schema
from foldline.utils.pydantic import is_pydantic_v1_subclass, v1_schema

__all__ = [
    "convert_to_json_schema",
    "convert_to_openai_function",
    "convert_to_openai_tool",
]

Callable_ = Callable[..., Any]
Described = dict[str, Any]

SERVER_TOOL_KEYS = frozenset(  # tools of Gemini and Bedrock, which are named by their only key
    [
        "google_search",
        "google_search_retrieval",
        "google_maps",
        "enterprise_web_search",
        "code_execution",
        "url_context",
        "computer_use",
        "file_search",
        "googleSearch",
        "googleSearchRetrieval",
        "googleMaps",
        "enterpriseWebSearch",
        "codeExecution",
        "urlContext",
        "computerUse",
        "fileSearch",
        "cachePoint",
        "systemTool",
    ]
)
FUNCTION_KEYS = ("parameters", "input_schema", "inputSchema", "function", "toolSpec", "properties")
JSON_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null", "function")
NO_INPUT: Described = {"type": "object", "properties": {}}
SINGLE_INPUT: Described = {
    "type": "object",
    "properties": {"__arg1": {"title": "__arg1", "type": "string"}},
    "required": ["__arg1"],
}


def convert_to_openai_function(
    function: Mapping[str, Any] | type | Callable_ | object, *, strict: bool | None = None
) -> Described:
    """Describe a function in OpenAI's form: name, description, parameters.

    `strict=True` also closes every object and requires every property, and raises `UsageError` for a schema that
    cannot be closed, such as a dict with free keys; `strict=False` says so.
    """
    described = _described(function)
    if strict is None:
        return described
    if "strict" in described and described["strict"] != strict:
        raise UsageError(
            f"{described.get('name')!r} says strict={described['strict']}, and strict={strict} was asked for"
        )
    if strict and isinstance(described.get("parameters"), dict):
        check_closable(described["parameters"], described.get("name"))
        described["parameters"] = strict_schema(described["parameters"], optional_as_nullable=False)
    return {**described, "strict": strict}


def convert_to_openai_tool(
    tool: Mapping[str, Any] | type | Callable_ | object, *, strict: bool | None = None
) -> Described:
    """Describe a tool in OpenAI's form; OpenAI's tools and tools of providers are returned unchanged."""
    if isinstance(tool, Mapping):
        if tool.get("type") == "function" and isinstance(tool.get("function"), Mapping):
            return dict(tool)
        if is_server_tool(tool):
            return dict(tool)
    custom = _custom_tool(tool)
    if custom is not None:
        return custom
    return {"type": "function", "function": convert_to_openai_function(tool, strict=strict)}


def convert_to_json_schema(
    schema: Mapping[str, Any] | type | Callable_ | object, *, strict: bool | None = None
) -> Described:
    """Describe as one JSON Schema whose title is the name."""
    if isinstance(schema, Mapping) and is_server_tool(schema):
        raise UsageError(f"{dict(schema)!r:.200} is a tool of the provider: it has no JSON Schema")
    described = convert_to_openai_tool(schema, strict=strict)
    if described.get("type") != "function":
        raise UsageError(f"{described.get('name')!r} takes free text: it has no JSON Schema")
    function = described["function"]
    schema_fields = {"title": function["name"]}
    if "description" in function:
        schema_fields["description"] = function["description"]
    return {**schema_fields, **(function.get("parameters") or {})}


def is_server_tool(tool: Mapping[str, Any]) -> bool:
    """Whether a dict names a tool that the provider runs, which must be sent unchanged."""
    if any(key in tool for key in FUNCTION_KEYS):
        return False
    kind = tool.get("type")
    if isinstance(kind, str):
        return kind not in JSON_TYPES
    return "name" not in tool and len(tool) == 1 and next(iter(tool)) in SERVER_TOOL_KEYS


def _described(function: object) -> Described:
    if isinstance(function, Mapping):
        return _from_dict(function)
    if isinstance(function, type):
        return _from_class(function)
    if _is_tool(function):
        return _from_tool(function)
    if getattr(function, "__name__", "") == "<lambda>":
        raise UsageError(
            "a lambda has no name that a model could call: write it with `def`, and a docstring"
        )
    if callable(function):
        return _from_function(function)
    raise _unsupported(function)


def _unsupported(function: object) -> UsageError:
    return UsageError(
        f"{function!r:.200} cannot be described as a function: pass a function, a pydantic model, a TypedDict, a "
        'dataclass, a tool, a JSON Schema with a "title", or a tool dict of OpenAI, Anthropic, Bedrock or MCP'
    )


def _from_dict(source: Mapping[str, Any]) -> Described:
    if isinstance(source.get("toolSpec"), Mapping):  # Bedrock
        spec = source["toolSpec"]
        return _assembled(spec, (spec.get("inputSchema") or {}).get("json"))
    if source.get("type") == "function" and isinstance(source.get("function"), Mapping):
        return dict(source["function"])
    if "name" in source and "input_schema" in source:  # Anthropic
        return _assembled(source, source["input_schema"])
    if "name" in source and "inputSchema" in source:  # MCP
        return _assembled(source, source["inputSchema"])
    if "name" in source:  # OpenAI
        return {
            key: source[key]
            for key in ("name", "description", "parameters", "strict")
            if key in source
        }
    if "title" in source:  # JSON Schema
        parameters = {
            key: item for key, item in source.items() if key not in ("title", "description")
        }
        return _assembled({"name": source["title"], **source}, parameters or None)
    if "properties" in source or source.get("type") == "object":
        raise UsageError(
            f"{dict(source)!r:.200}: a JSON Schema must have a top-level 'title' key to be used as a function: "
            "the title is the function's name"
        )
    raise _unsupported(dict(source))


def _assembled(named: Mapping[str, Any], parameters: Mapping[str, Any] | None) -> Described:
    described: Described = {"name": named["name"]}
    if named.get("description") is not None:
        described["description"] = named["description"]
    if parameters is not None:
        described["parameters"] = dict(parameters)
    return described


def _from_class(kind: type) -> Described:
    if is_typed_dict(kind):
        schema = schema_of_type(model_from_typed_dict(kind))
        return _from_schema(kind.__name__, parse_docstring(own_doc(kind)).description, schema)
    if issubclass(kind, BaseModel):
        schema = schema_of_type(kind)
        return _from_schema(
            schema.get("title", kind.__name__), schema.get("description", ""), schema
        )
    if is_pydantic_v1_subclass(kind):
        schema = v1_schema(kind)
        return _from_schema(schema["title"], schema.get("description", ""), schema)
    if dataclasses.is_dataclass(kind):
        schema = schema_of_type(kind)
        return _from_schema(kind.__name__, parse_docstring(own_doc(kind)).description, schema)
    return _from_function(kind)


def _from_function(function: Callable_) -> Described:
    name, text = name_and_doc(function)
    docstring = parse_docstring(text)
    model = model_from_function(function, name=name, docstring=docstring)
    return _from_schema(name, docstring.description, schema_of_type(model))


def _is_tool(value: object) -> bool:
    return isinstance(getattr(value, "name", None), str) and hasattr(value, "description")


def _from_tool(tool: Any) -> Described:  # noqa: ANN401  by duck type: tools live above
    schema = getattr(tool, "tool_call_schema", None)
    if schema is None:
        schema = getattr(tool, "args_schema", None)
    if schema is None:
        args = getattr(tool, "args", None)
        parameters = {**SINGLE_INPUT, "properties": args} if args else SINGLE_INPUT
        return {"name": tool.name, "description": tool.description, "parameters": dict(parameters)}
    if isinstance(schema, Mapping):
        parameters = {
            key: item for key, item in schema.items() if key not in ("title", "description")
        }
        return {
            "name": tool.name,
            "description": tool.description,
            "parameters": parameters or NO_INPUT,
        }
    return _from_schema(tool.name, tool.description, schema_of_type(schema))


def _custom_tool(tool: object) -> Described | None:
    """Describe a tool that takes free text (OpenAI's custom tools)."""
    metadata = getattr(tool, "metadata", None)
    if isinstance(tool, Mapping) or not isinstance(metadata, dict) or not _is_tool(tool):
        return None
    if metadata.get("type") != "custom_tool":
        return None
    described: Described = {"type": "custom", "name": tool.name, "description": tool.description}  # type: ignore[attr-defined]
    return {**described, "format": metadata["format"]} if "format" in metadata else described


def _from_schema(name: str, description: str, schema: Described) -> Described:
    flat = remove_titles(inline_refs(schema))
    parameters = {key: item for key, item in flat.items() if key != "description"}
    return {"name": name, "description": description, "parameters": parameters}


# LangChain has this helper here; messages are a higher layer of foldline.
forward_names(
    __name__,
    {
        "foldline.messages.tool_examples": "tool_example_to_messages",
    },
)
