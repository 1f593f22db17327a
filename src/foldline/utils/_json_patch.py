"""JSON Patch (RFC 6902): the operations that turn one value into another, and their application. No I/O.

Used for streams that send only changes. Values need not be JSON: values other than dicts and lists are replaced.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from foldline.exceptions import UsageError

__all__ = ["Operation", "apply_patch", "make_patch", "write_pointer"]

Operation = dict[str, Any]
"""`{"op": "add", "path": "/a/0", "value": 1}`; the others are `replace` and `remove`."""


def write_pointer(*keys: str) -> str:
    """Write a path as a JSON pointer (RFC 6901)."""
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in keys)


def _read_pointer(path: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]


def make_patch(old: object, new: object, path: str = "") -> list[Operation]:
    """Return the operations that turn one value into another; `path` is where the value is in its document."""
    operations: list[Operation] = []
    _compare(old, new, path, operations)
    return operations


def _compare(old: object, new: object, path: str, operations: list[Operation]) -> None:
    if old is new:  # results of one stream share unchanged parts
        return
    if isinstance(old, dict) and isinstance(new, dict):
        _compare_dicts(old, new, path, operations)
    elif isinstance(old, list) and isinstance(new, list):
        _compare_lists(old, new, path, operations)
    elif type(old) is not type(new) or old != new:
        operations.append({"op": "replace", "path": path, "value": new})


def _compare_dicts(
    old: dict[Any, Any], new: dict[Any, Any], path: str, operations: list[Operation]
) -> None:
    removed_keys = (key for key in old if key not in new)
    operations += [{"op": "remove", "path": path + write_pointer(str(key))} for key in removed_keys]
    for key, value in new.items():
        path_of_key = path + write_pointer(str(key))
        if key in old:
            _compare(old[key], value, path_of_key, operations)
        else:
            operations.append({"op": "add", "path": path_of_key, "value": value})


def _compare_lists(old: list[Any], new: list[Any], path: str, operations: list[Operation]) -> None:
    common = min(len(old), len(new))
    # Streams grow at the end: the items before are the same objects, and `map` compares them at the speed of C.
    start = common - 1 if common and all(map(is_, old[: common - 1], new)) else 0
    for index in range(start, common):
        _compare(old[index], new[index], f"{path}/{index}", operations)
    removed = range(len(old) - 1, common - 1, -1)
    operations += [{"op": "remove", "path": f"{path}/{index}"} for index in removed]
    added = range(common, len(new))
    operations += [{"op": "add", "path": f"{path}/{index}", "value": new[index]} for index in added]


def apply_patch(state: object, operations: list[Operation]) -> Any:  # noqa: ANN401  the same kind of JSON as the state
    """Return the state after some operations; changed parts are copied, and the old state stays unchanged."""
    for operation in operations:
        keys = _read_pointer(operation["path"])
        state = _apply(state, keys, operation) if keys else operation.get("value")
    return state


def _apply(state: object, keys: list[str], operation: Operation) -> object:
    key, *keys_below = keys
    if isinstance(state, list):
        return _apply_to_list(state, key, keys_below, operation)
    if not isinstance(state, dict) or (keys_below and key not in state):
        raise UsageError(f"there is nothing at {operation['path']!r}: apply patches in their order")
    state = dict(state)
    if keys_below:
        state[key] = _apply(state[key], keys_below, operation)
    elif operation["op"] == "remove":
        del state[key]
    else:
        state[key] = operation["value"]
    return state


def _apply_to_list(
    state: list[Any], key: str, keys_below: list[str], operation: Operation
) -> list[Any]:
    state = list(state)
    index = len(state) if key == "-" else int(key)
    if keys_below:
        state[index] = _apply(state[index], keys_below, operation)
    elif operation["op"] == "remove":
        del state[index]
    elif operation["op"] == "add":
        state.insert(index, operation["value"])
    else:
        state[index] = operation["value"]
    return state
