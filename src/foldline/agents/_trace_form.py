"""The form of an agent in the traces: digests of its system prompt, its tools and its settings, to see what changed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from foldline.agents._agent_definition import Setup
from foldline.tools.base import BaseTool

__all__ = ["describe_agent"]


def describe_agent(setup: Setup, model: str) -> dict[str, Any]:
    """Return the form of an agent; equal digests are equal prompts, schemas and settings."""
    prompt = setup.system_message
    settings = {
        "model": model,
        "middleware": [part.name for part in setup.middleware],
        "response_format": _describe_type(setup.response_format),
        "limits": repr(setup.limits),
    }
    return {
        "name": setup.name,
        "type": "agent",
        "system_prompt": None if prompt is None else _digest(prompt.content),
        "tools": dict(_describe_tool(tool) for tool in setup.bindable),
        "settings": _digest(settings),
        "model": model,
        "middleware": settings["middleware"],
    }


def _describe_tool(tool: object) -> tuple[str, str]:
    if isinstance(tool, BaseTool):
        return tool.name, _digest([tool.description, _schema_of(tool)])
    if isinstance(tool, dict):  # a tool of the provider
        return str(tool.get("name") or tool.get("type") or "tool"), _digest(tool)
    return str(getattr(tool, "__name__", type(tool).__name__)), _digest(_describe_type(tool))


def _schema_of(tool: BaseTool) -> object:
    try:
        return tool.get_input_jsonschema()
    except Exception:  # noqa: BLE001  a tool of any author: without a schema it still has a name
        return None


def _describe_type(value: object) -> object:
    if value is None or isinstance(value, dict):
        return value
    schema = getattr(value, "model_json_schema", None)
    try:
        return schema() if callable(schema) else repr(type(value) if schema is None else value)
    except Exception:  # noqa: BLE001  as above
        return repr(type(value))


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
