"""The little of JSON Patch (RFC 6902) that a log needs: apply add, replace and remove; tell how two values differ."""

from __future__ import annotations

from typing import Any

from foldline.exceptions import UsageError

Operation = dict[str, Any]


def pointer(*keys: str) -> str:
    """Write a path as a JSON pointer."""
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in keys)


def _keys(path: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]


def apply(state: Any, operations: list[Operation]) -> Any:
    """Give the state after some operations; what they touch is copied, the old state stays as it was."""
    for operation in operations:
        keys = _keys(operation["path"])
        state = _applied(state, keys, operation) if keys else operation.get("value")
    return state


def _applied(state: Any, keys: list[str], operation: Operation) -> Any:
    key, rest = keys[0], keys[1:]
    if isinstance(state, list):
        return _applied_to_list(state, key, rest, operation)
    if not isinstance(state, dict) or (rest and key not in state):
        raise UsageError(
            f"a log has nothing at {operation['path']!r}: apply its patches in their order"
        )
    state = dict(state)
    if rest:
        state[key] = _applied(state[key], rest, operation)
    elif operation["op"] == "remove":
        del state[key]
    else:
        state[key] = operation["value"]
    return state


def _applied_to_list(
    state: list[Any], key: str, rest: list[str], operation: Operation
) -> list[Any]:
    state = list(state)
    place = len(state) if key == "-" else int(key)
    if rest:
        state[place] = _applied(state[place], rest, operation)
    elif operation["op"] == "remove":
        del state[place]
    elif operation["op"] == "add":
        state.insert(place, operation["value"])
    else:
        state[place] = operation["value"]
    return state


def difference(old: Any, new: Any, path: str) -> list[Operation]:
    """Say how to turn one value into another: dicts by key, everything else whole."""
    if isinstance(old, dict) and isinstance(new, dict):
        gone = [{"op": "remove", "path": path + pointer(str(key))} for key in old if key not in new]
        come = [
            {"op": "add", "path": path + pointer(str(key)), "value": new[key]}
            for key in new
            if key not in old
        ]
        changed = [
            operation
            for key in new
            if key in old
            for operation in difference(old[key], new[key], path + pointer(str(key)))
        ]
        return [*gone, *come, *changed]
    if old is new or (type(old) is type(new) and old == new):
        return []
    return [{"op": "replace", "path": path, "value": new}]
