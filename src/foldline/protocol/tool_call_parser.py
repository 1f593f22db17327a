"""Turns the text of a tool call into a call, or into an invalid call with the error.

Strict, because a program acts on the result: a JSON object or nothing, never repaired. Nothing here raises.
"""

from __future__ import annotations

import json
from typing import Any

from foldline.protocol.merge import GROWING_CALLS, copy_json
from foldline.utils.json import JsonError, mend_value, parse_strict, to_jsonable

CLIENT_CALLS = frozenset({"tool_call_chunk", "tool_call", "invalid_tool_call"})
SERVER_CALLS = frozenset({"server_tool_call_chunk", "server_tool_call"})
SERVER_MARK = "server"
"""The key in `extras` of an invalid call that the provider, not the client, would have run."""


def parse_tool_args(text: str | None) -> dict[str, Any] | str:
    """Parse the arguments of a tool call; return a string that describes the error if they are invalid.

    ```python
    print(parse_tool_args('{"city": "Oslo"}'))
    #> {'city': 'Oslo'}
    print(parse_tool_args(""))
    #> {}
    print(parse_tool_args("[1]"))
    #> arguments are a list, not a JSON object
    ```
    """
    if text is None or not text.strip():
        return {}
    try:
        value = parse_strict(text)
    except JsonError as error:
        return f"arguments are not valid JSON: {error}"
    if not isinstance(value, dict):
        return f"arguments are {_noun(value)}, not a JSON object"
    args: dict[str, Any] = mend_value(value)
    return args


def promote(block: dict[str, Any], *, unfinished: str | None = None) -> dict[str, Any]:
    """Turn a growing call into its final block; blocks of other types come back as a copy.

    `unfinished` is why the call is incomplete (a cut stream): it is then invalid even if its text parses.
    """
    kind = block.get("type")
    if (kind not in CLIENT_CALLS and kind not in SERVER_CALLS) or kind == "invalid_tool_call":
        return dict(copy_json(block))
    args = _args_of(block.get("args"))
    name = block.get("name")
    error = unfinished or (args if isinstance(args, str) else None)
    if error is None and not (isinstance(name, str) and name):
        error = "the call names no tool"
    other_fields = _other_fields(block)
    if error is None:
        final = "server_tool_call" if kind in SERVER_CALLS else "tool_call"
        return {
            "type": final,
            "id": block.get("id") or None,
            "name": name,
            "args": args,
            **other_fields,
        }
    if kind in SERVER_CALLS:
        extras = other_fields.get("extras")
        extra_fields = extras if isinstance(extras, dict) else {"extras": extras} if extras else {}
        other_fields["extras"] = {**extra_fields, SERVER_MARK: True}
    return {
        "type": "invalid_tool_call",
        "id": block.get("id") or None,
        "name": name or None,
        "args": _args_text(block.get("args")),
        "error": error,
        **other_fields,
    }


def is_growing_call(block: dict[str, Any]) -> bool:
    """Return whether a block is a call whose arguments are still a slice of text."""
    return block.get("type") in GROWING_CALLS


def is_server_call(block: dict[str, Any]) -> bool:
    """Return whether the provider runs this call itself; such a call never appears among the client's (T41, T42)."""
    if block.get("type") in SERVER_CALLS:
        return True
    extras = block.get("extras")
    return (
        block.get("type") == "invalid_tool_call"
        and isinstance(extras, dict)
        and extras.get(SERVER_MARK) is True
    )


def _args_of(args: object) -> dict[str, Any] | str:
    if args is None or isinstance(args, str):
        return parse_tool_args(args)
    if not isinstance(args, dict):
        return f"arguments are {_noun(args)}, not a JSON object"
    try:
        json.dumps(args, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"arguments are not valid JSON: {error}"
    return dict(copy_json(args))


def _args_text(args: object) -> str | None:
    if args is None or isinstance(args, str):
        return args
    return json.dumps(to_jsonable(args))


def _other_fields(block: dict[str, Any]) -> dict[str, Any]:
    call_fields = ("type", "id", "name", "args", "error")
    return {key: copy_json(value) for key, value in block.items() if key not in call_fields}


def _noun(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(
        type(value), "a number" if isinstance(value, (int, float)) else type(value).__name__
    )
