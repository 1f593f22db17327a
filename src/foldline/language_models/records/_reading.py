"""Converts AIGNE's messages, tools, files and tool calls to ours: snake_case or camelCase, and no key dropped. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from foldline.exceptions import UsageError
from foldline.language_models._call.policies.file_resolver import media_type
from foldline.utils._spelling import snake_case, snake_keys

__all__ = ["MEDIA", "read_call", "read_file", "read_message", "read_response_format", "read_tool"]

Options = dict[str, Any]

MEDIA: Final = frozenset({"image", "audio", "video", "file"})
"""Types of blocks that contain a file."""
SOURCES: Final = {"url": "url", "file": "data", "local": "path"}
"""AIGNE's types of files -> the key of their content."""
SNIFFED_BYTES: Final = 64
"""The length of base64 that is decoded to detect a file type."""
OTHER_FILE_KEYS: Final = {"file_name": "filename"}
MESSAGE_KEYS: Final = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "name", "id", "cache_control", "status", "artifact"}
)  # fmt: skip
FORMAT_KEYS: Final = frozenset({"type", "json_schema"})
SCHEMA_KEYS: Final = frozenset({"name", "description", "schema", "strict"})


def read_message(value: object) -> object:
    """Convert AIGNE's message: role `agent`, `toolCalls` with arguments as an object, `toolCallId`, `cacheControl`.

    Anything else is returned unchanged, for `convert_to_messages`.
    """
    if not isinstance(value, Mapping) or "role" not in value:
        return value
    fields = snake_keys(value)
    if unknown_keys := sorted(fields.keys() - MESSAGE_KEYS):
        raise UsageError(
            f"a message has no {unknown_keys[0]!r}: known are {', '.join(sorted(MESSAGE_KEYS))}"
        )
    role = {"agent": "assistant"}.get(fields["role"], fields["role"])
    message: Options = {"role": role, "content": _read_content(fields.get("content"))}
    for key in ("name", "id", "tool_call_id", "status", "artifact"):
        if fields.get(key) is not None:
            message[key] = fields[key]
    if calls := fields.get("tool_calls"):
        _add_calls(message, [read_call(call) for call in calls])
    if fields.get("cache_control") is not None:
        message["additional_kwargs"] = {"cache_control": fields["cache_control"]}
    return message


def _add_calls(message: Options, calls: list[Options]) -> None:
    """Add tool calls to a message: as blocks if they carry what the provider needs back."""
    if not any("extras" in call for call in calls):
        message["tool_calls"] = calls
        return
    content = message["content"]
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    nonempty_blocks = [block for block in blocks if block != {"type": "text", "text": ""}]
    message["content"] = [*nonempty_blocks, *({"type": "tool_call", **call} for call in calls)]


def read_call(call: Mapping[str, Any]) -> Options:
    """Convert a tool call: AIGNE's, with arguments as an object or as JSON text, or a plain one with name and args."""
    fields = snake_keys(call)
    function = fields.get("function")
    function_fields = snake_keys(function) if isinstance(function, Mapping) else fields
    arguments = function_fields.get("arguments", function_fields.get("args"))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError as error:
            raise UsageError(
                f"the arguments of the call {fields.get('id')!r} are not JSON: {error}"
            ) from error
    tool_call: Options = {
        "id": fields.get("id"),
        "name": function_fields.get("name"),
        "args": arguments or {},
    }
    extras = {**(fields.get("extras") or {}), **snake_keys(fields.get("metadata") or {})}
    return {**tool_call, "extras": extras} if extras else tool_call


def _read_content(content: object) -> object:
    if content is None:
        return ""
    if not isinstance(content, list):
        return content
    return [read_file(block) for block in content]


def read_file(block: object) -> Any:  # noqa: ANN401  a block, or any other value, which stays as it is
    """Convert a block: AIGNE's files (`{"type": "url" | "file" | "local"}`) become media blocks of their type.

    The type comes from the MIME type, else from the name or the first bytes.
    """
    if not isinstance(block, Mapping):
        return block
    fields = {OTHER_FILE_KEYS.get(key, key): value for key, value in snake_keys(block).items()}
    source = SOURCES.get(str(fields.get("type")))
    if source is None or source not in fields or "base64" in fields:
        return fields
    content = fields.pop(source)
    mime = fields.pop("mime_type", None) or _guess_media_type(
        source, content, fields.get("filename")
    )
    media = (mime or "").partition("/")[0]
    fields["type"] = media if media in MEDIA else "file"
    file_block = {**fields, "base64" if source == "data" else source: content}
    return {**file_block, "mime_type": mime} if mime else file_block


def _guess_media_type(source: str, content: object, filename: object) -> str | None:
    """Return the media type of a file by its first bytes, if there are any, else by its name."""
    name = str(filename or "")
    data = b""
    if source == "data" and isinstance(content, str):
        try:
            data = base64.b64decode(
                content[:SNIFFED_BYTES] + "=" * (-len(content[:SNIFFED_BYTES]) % 4)
            )
        except binascii.Error:  # the provider will report the error
            data = b""
    elif source == "url":
        name = name or urlsplit(str(content)).path
    elif source == "path":
        name = name or str(content)
    return media_type(data, name)


def read_tool(tool: object, location: str = "tool") -> object:
    """Convert a tool: AIGNE's dict in snake_case or camelCase; other forms of tools stay as they are."""
    if not isinstance(tool, Mapping):
        return tool
    converted = {_tool_key(key): value for key, value in tool.items()}
    function = converted.get("function")
    if isinstance(function, Mapping):
        converted["function"] = {_tool_key(key): value for key, value in function.items()}
    _check_tool(converted, location)
    return converted


def _check_tool(tool: Options, location: str) -> None:
    """Raise for a function tool without a part that AIGNE requires; a flat one has `name` beside its type."""
    if "function" not in tool and (tool.get("type") != "function" or "name" in tool):
        return
    function = tool.get("function")
    name = None
    if tool.get("type") != "function":
        problem = f"has the `type` {tool.get('type')!r}"
    elif not isinstance(function, Mapping):
        problem = f"has the `function` {function!r:.80}"
    elif not (name := function.get("name")) or not isinstance(name, str):
        problem = f"has the `name` {name!r:.80}"
    elif not isinstance(function.get("parameters"), Mapping):
        problem = f"({name}) has the `parameters` {function.get('parameters')!r:.80}"
    else:
        return
    raise UsageError(
        f'{location} {problem}: write {{"type": "function", "function": {{"name": …, "parameters": {{…}}}}}}, with a '
        'JSON Schema as parameters ({"type": "object", "properties": {}} for none)'
    )


def _tool_key(key: str) -> str:
    return "cache_control" if key == "cacheControl" else key


def read_response_format(value: Mapping[str, Any]) -> Options:
    """Convert a response format in snake_case or camelCase; raise for an unknown key."""
    response_format = _check_names("response_format", snake_keys(value), FORMAT_KEYS)
    if isinstance(json_schema := response_format.get("json_schema"), Mapping):
        response_format["json_schema"] = _check_names(
            "json_schema", snake_keys(json_schema), SCHEMA_KEYS
        )
    return response_format


def _check_names(location: str, values: Options, names: frozenset[str]) -> Options:
    if unknown_names := sorted(values.keys() - names):
        known_names = ", ".join(sorted(names))
        raise UsageError(f"{location} has no {unknown_names[0]!r}: known are {known_names}")
    return values


def known_name(name: str, names: frozenset[str] | set[str]) -> str | None:
    """Return the one of some snake_case names that a name in either style is; None if it is none of them."""
    snake_name = snake_case(name)
    return snake_name if snake_name in names else None
