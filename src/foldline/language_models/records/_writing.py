"""Converts our messages, tools, files and options to AIGNE's: the reverse of `reading`, in both spellings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic.alias_generators import to_camel

from foldline.language_models._call.policies.prompt_caching import cache_control_of
from foldline.language_models.records._reading import MEDIA, SOURCES, known_name, read_file
from foldline.language_models.records.parts import ChatModelInputOptions
from foldline.language_models.structured._tool_binding import tools_of
from foldline.messages import AIMessage, BaseMessage, ToolMessage

__all__ = ["write_call", "write_file", "write_message", "write_options", "write_tool"]

Options = dict[str, Any]

ROLES: Final = {"human": "user", "ai": "agent", "AIMessageChunk": "agent"}
"""Types of our messages -> AIGNE's roles, where they differ."""
OPTION_NAMES: Final = frozenset(ChatModelInputOptions.__annotations__)


def write_message(message: BaseMessage, *, camel: bool) -> Options:
    """Return a message as AIGNE's record, which `read_message` reads."""
    content, calls = _content_and_calls(message, camel=camel)
    fields: Options = {
        "role": getattr(message, "role", None) or ROLES.get(message.type, message.type),
        "content": content,
        "name": message.name,
        "id": message.id,
        "tool_calls": calls or None,
        "cache_control": message.additional_kwargs.get("cache_control"),
    }
    if isinstance(message, ToolMessage):
        fields["tool_call_id"] = message.tool_call_id
        fields["status"] = message.status if message.status != "success" else None
        fields["artifact"] = message.artifact
    spell = _spelling(camel=camel)
    return {spell(key): value for key, value in fields.items() if value is not None}


def _content_and_calls(message: BaseMessage, *, camel: bool) -> tuple[Any, list[Options]]:
    """Return the content without tool calls, and the calls; an invalid call stays a block."""
    blocks = [dict(block) for block in message.content_blocks]
    invalid_calls = [block for block in blocks if block.get("type") == "invalid_tool_call"]
    calls = [write_call(block) for block in blocks if block.get("type") == "tool_call"]
    if isinstance(message, AIMessage) and not calls:
        calls = [write_call(call) for call in message.tool_calls]
    if isinstance(message.content, str) and not invalid_calls:
        return message.content, calls
    other_blocks = [block for block in blocks if block.get("type") != "tool_call"]
    return [write_file(block, camel=camel) for block in other_blocks], calls


def write_call(call: Mapping[str, Any]) -> Options:
    """Return a tool call, or its block, as AIGNE's: what the provider needs back becomes `metadata`."""
    tool_call: Options = {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": call["name"], "arguments": call["args"]},
    }
    extras = call.get("extras")
    return {**tool_call, "metadata": dict(extras)} if extras else tool_call


def write_file(block: object, *, camel: bool) -> Any:  # noqa: ANN401  a block, or any other value, which stays as it is
    """Return a block in AIGNE's form: a media block becomes a file, unless only its block names its kind."""
    if not isinstance(block, Mapping):
        return block
    spell = _spelling(camel=camel)
    plain_block = {spell(key): value for key, value in block.items()}
    if block.get("type") not in MEDIA:
        return plain_block
    for kind, key in SOURCES.items():
        source = "base64" if key == "data" else key
        if source in plain_block:
            other_fields = {
                name: value for name, value in plain_block.items() if name not in ("type", source)
            }
            file = {"type": kind, key: plain_block[source], **other_fields}
            return file if read_file(file)["type"] == block["type"] else plain_block
    return plain_block


def write_tool(tool: object, *, camel: bool) -> Options:
    """Return a tool of any form as AIGNE's description; a provider's own tool stays as it is."""
    description = dict(tool) if isinstance(tool, Mapping) else tools_of([tool])[0]
    control = description.pop("cache_control", None) or cache_control_of(tool)
    mark = {_spelling(camel=camel)("cache_control"): control} if control is not None else {}
    return {**description, **mark}


def write_options(options: Mapping[str, Any], *, camel: bool) -> Options:
    """Return options of the model with AIGNE's names in one spelling; other names stay as they are."""
    spell = _spelling(camel=camel)
    return {
        spell(known) if (known := known_name(name, OPTION_NAMES)) else name: value
        for name, value in options.items()
    }


def _spelling(*, camel: bool) -> Callable[[str], str]:
    return to_camel if camel else str
