"""JSON Patch (RFC 6902) between two values: what a stream of results sends when only the differences are wanted."""

from __future__ import annotations

from typing import Any

from foldline.protocol.blocks import Json

__all__ = ["difference"]

Operation = dict[str, Any]


def difference(old: Json, new: Json) -> list[Operation]:
    """Say how to turn one value into another, operation by operation."""
    found: list[Operation] = []
    _compare(old, new, "", found)
    return found


def _compare(old: Json, new: Json, path: str, found: list[Operation]) -> None:
    if old is new:  # results of one stream share what has not changed
        return
    if isinstance(old, dict) and isinstance(new, dict):
        _compare_dicts(old, new, path, found)
    elif isinstance(old, list) and isinstance(new, list):
        _compare_lists(old, new, path, found)
    elif type(old) is not type(new) or old != new:
        found.append({"op": "replace", "path": path, "value": new})


def _compare_dicts(
    old: dict[str, Json], new: dict[str, Json], path: str, found: list[Operation]
) -> None:
    gone = [key for key in old if key not in new]
    found += [{"op": "remove", "path": f"{path}/{_escaped(key)}"} for key in gone]
    for key, value in new.items():
        below = f"{path}/{_escaped(key)}"
        if key in old:
            _compare(old[key], value, below, found)
        else:
            found.append({"op": "add", "path": below, "value": value})


def _compare_lists(old: list[Json], new: list[Json], path: str, found: list[Operation]) -> None:
    shared = min(len(old), len(new))
    # What streams grow at the end: lists that begin alike are compared at C's speed.
    start = shared - 1 if shared and old[: shared - 1] == new[: shared - 1] else 0
    for index in range(start, shared):
        _compare(old[index], new[index], f"{path}/{index}", found)
    gone = range(len(old) - 1, shared - 1, -1)
    found += [{"op": "remove", "path": f"{path}/{index}"} for index in gone]
    come = range(shared, len(new))
    found += [{"op": "add", "path": f"{path}/{i}", "value": new[i]} for i in come]


def _escaped(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
