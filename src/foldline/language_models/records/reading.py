"""AIGNE's messages, tools, files and tool calls, read as ours: either spelling, and no key dropped. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from foldline.exceptions import UsageError
from foldline.language_models.policies.media_types import media_type
from foldline.utils.spelling import snake_case, snake_keys

__all__ = ["MEDIA", "read_call", "read_file", "read_message", "read_response_format", "read_tool"]

Options = dict[str, Any]

MEDIA: Final = frozenset({"image", "audio", "video", "file"})
"""Kinds of block that hold a file."""
SOURCES: Final = {"url": "url", "file": "data", "local": "path"}
"""Kinds of AIGNE's files -> the key that holds them."""
SNIFFED_BYTES: Final = 64
"""As much base64 as is decoded to tell a file by its first bytes."""
OTHER_FILE_KEYS: Final = {"file_name": "filename"}
MESSAGE_KEYS: Final = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "name", "id", "cache_control", "status", "artifact"}
)  # fmt: skip
FORMAT_KEYS: Final = frozenset({"type", "json_schema"})
SCHEMA_KEYS: Final = frozenset({"name", "description", "schema", "strict"})


def read_message(value: object) -> object:
    """Read a message of AIGNE's: role `agent`, `toolCalls` with arguments as an object, `toolCallId`, `cacheControl`.

    What is no such dict is returned as it is, for the usual reading of messages.
    """
    if not isinstance(value, Mapping) or "role" not in value:
        return value
    given = snake_keys(value)
    if unknown := sorted(given.keys() - MESSAGE_KEYS):
        raise UsageError(
            f"a message has no {unknown[0]!r}: known are {', '.join(sorted(MESSAGE_KEYS))}"
        )
    role = {"agent": "assistant"}.get(given["role"], given["role"])
    message: Options = {"role": role, "content": _read_content(given.get("content"))}
    for key in ("name", "id", "tool_call_id", "status", "artifact"):
        if given.get(key) is not None:
            message[key] = given[key]
    if calls := given.get("tool_calls"):
        _add_calls(message, [read_call(call) for call in calls])
    if given.get("cache_control") is not None:
        message["additional_kwargs"] = {"cache_control": given["cache_control"]}
    return message


def _add_calls(message: Options, calls: list[Options]) -> None:
    """Put tool calls into a message: as blocks where they carry what the provider wants back."""
    if not any("extras" in call for call in calls):
        message["tool_calls"] = calls
        return
    content = message["content"]
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    kept = [block for block in blocks if block != {"type": "text", "text": ""}]
    message["content"] = [*kept, *({"type": "tool_call", **call} for call in calls)]


def read_call(call: Mapping[str, Any]) -> Options:
    """Read a tool call: AIGNE's, with arguments as an object or as JSON text, or a plain one with its name and args."""
    given = snake_keys(call)
    function = given.get("function")
    inner = snake_keys(function) if isinstance(function, Mapping) else given
    arguments = inner.get("arguments", inner.get("args"))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError as error:
            raise UsageError(
                f"the arguments of the call {given.get('id')!r} are no JSON: {error}"
            ) from error
    read: Options = {"id": given.get("id"), "name": inner.get("name"), "args": arguments or {}}
    extras = {**(given.get("extras") or {}), **snake_keys(given.get("metadata") or {})}
    return {**read, "extras": extras} if extras else read


def _read_content(content: object) -> object:
    if content is None:
        return ""
    if not isinstance(content, list):
        return content
    return [read_file(block) for block in content]


def read_file(block: object) -> Any:  # noqa: ANN401  a block, or what is no block and stays as it is
    """Read a block: AIGNE's files (`{"type": "url" | "file" | "local"}`) become media blocks of the kind they are.

    The kind comes from the MIME type, and where none is given from the name or the first bytes.
    """
    if not isinstance(block, Mapping):
        return block
    given = {OTHER_FILE_KEYS.get(key, key): value for key, value in snake_keys(block).items()}
    source = SOURCES.get(str(given.get("type")))
    if source is None or source not in given or "base64" in given:
        return given
    place = given.pop(source)
    mime = given.pop("mime_type", None) or _guessed(source, place, given.get("filename"))
    media = (mime or "").partition("/")[0]
    given["type"] = media if media in MEDIA else "file"
    read = {**given, "base64" if source == "data" else source: place}
    return {**read, "mime_type": mime} if mime else read


def _guessed(source: str, place: object, filename: object) -> str | None:
    """Return the media type of a file by its first bytes, where they are at hand, else by its name."""
    name = str(filename or "")
    data = b""
    if source == "data" and isinstance(place, str):
        try:
            data = base64.b64decode(place[:SNIFFED_BYTES] + "=" * (-len(place[:SNIFFED_BYTES]) % 4))
        except binascii.Error:  # the provider will say what is wrong with it
            data = b""
    elif source == "url":
        name = name or urlsplit(str(place)).path
    elif source == "path":
        name = name or str(place)
    return media_type(data, name)


def read_tool(tool: object) -> object:
    """Read a tool: AIGNE's dict in either spelling; anything else that `bind_tools` takes as it is."""
    if not isinstance(tool, Mapping):
        return tool
    read = {_tool_key(key): value for key, value in tool.items()}
    function = read.get("function")
    if isinstance(function, Mapping):
        read["function"] = {_tool_key(key): value for key, value in function.items()}
    return read


def _tool_key(key: str) -> str:
    return "cache_control" if key == "cacheControl" else key


def read_response_format(value: Mapping[str, Any]) -> Options:
    """Read a response format in either spelling; a key nobody knows is an error."""
    read = _check_names("response_format", snake_keys(value), FORMAT_KEYS)
    if isinstance(described := read.get("json_schema"), Mapping):
        read["json_schema"] = _check_names("json_schema", snake_keys(described), SCHEMA_KEYS)
    return read


def _check_names(where: str, values: Options, names: frozenset[str]) -> Options:
    if unknown := sorted(values.keys() - names):
        known = ", ".join(sorted(names))
        raise UsageError(f"{where} has no {unknown[0]!r}: known are {known}")
    return values


def known_name(name: str, names: frozenset[str] | set[str]) -> str | None:
    """Return which of some snake_case names a name is, in either spelling; None for none."""
    spelled = snake_case(name)
    return spelled if spelled in names else None
