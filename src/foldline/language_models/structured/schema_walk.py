"""A value beside its schema, part by part: what the schema does not know, what was left out, what was packed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from foldline.utils.json import JsonError, repair_json
from foldline.utils.json_schema import resolve_ref, validate

__all__ = ["unknown", "unpacked", "without_nulls"]


def unknown(value: object, schema: object, root: object, path: str) -> Iterator[str]:
    """Return the paths of properties that a schema does not have, and that reading by it leaves out."""
    branches = _branches(schema, root)
    if isinstance(value, list):
        for place, item in enumerate(value):
            inner = [
                branch["items"] for branch in branches if isinstance(branch.get("items"), dict)
            ]
            if inner:
                yield from unknown(item, {"anyOf": inner}, root, f"{path}[{place}]")
    if not isinstance(value, dict) or not any("properties" in branch for branch in branches):
        return
    is_open = any(branch.get("additionalProperties") not in (None, False) for branch in branches)
    for name, item in value.items():
        known = [
            branch["properties"][name]
            for branch in branches
            if name in branch.get("properties", {})
        ]
        where = f"{path}.{name}" if path else name
        if known:
            yield from unknown(item, {"anyOf": known}, root, where)
        elif not is_open:
            yield where


def without_nulls(value: object, schema: object, root: object) -> object:
    """Leave out nulls that the schema does not admit: they stand for properties that are not there."""
    branches = _branches(schema, root)
    if isinstance(value, list):
        inner = {
            "anyOf": [
                branch["items"] for branch in branches if isinstance(branch.get("items"), dict)
            ]
        }
        return [without_nulls(item, inner, root) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, item in value.items():
        known = [
            branch["properties"][name]
            for branch in branches
            if name in branch.get("properties", {})
        ]
        required = any(name in branch.get("required", ()) for branch in branches)
        if (
            item is None
            and known
            and not required
            and validate(None, {"anyOf": known, **_definitions(root)})
        ):
            continue
        kept[name] = without_nulls(item, {"anyOf": known}, root)
    return kept


def unpacked(value: object, schema: object, root: object, path: str) -> tuple[Any, list[str]]:
    """Take JSON out of strings where the schema wants an object or a list; say where."""
    branches = _branches(schema, root)
    if isinstance(value, str):
        kinds = {branch.get("type") for branch in branches}
        if (
            "string" in kinds
            or not kinds & {"object", "array"}
            or value.lstrip()[:1] not in ("{", "[")
        ):
            return value, []
        try:
            return repair_json(value)[0], [
                f"took the JSON out of a string{f' at {path}' if path else ''}"
            ]
        except JsonError:
            return value, []
    told: list[str] = []
    if isinstance(value, list):
        inner = {
            "anyOf": [
                branch["items"] for branch in branches if isinstance(branch.get("items"), dict)
            ]
        }
        items = [
            unpacked(item, inner, root, f"{path}[{place}]") for place, item in enumerate(value)
        ]
        return [item for item, _ in items], [one for _, more in items for one in more]
    if not isinstance(value, dict):
        return value, []
    whole = {}
    for name, item in value.items():
        known = [
            branch["properties"][name]
            for branch in branches
            if name in branch.get("properties", {})
        ]
        whole[name], more = unpacked(
            item, {"anyOf": known}, root, f"{path}.{name}" if path else name
        )
        told += more
    return whole, told


def _definitions(root: Any) -> dict[str, Any]:  # noqa: ANN401  JSON Schema: a dict, or true and false
    return {key: root[key] for key in ("$defs", "definitions") if key in root}


def _branches(schema: object, root: object, depth: int = 0) -> list[dict[str, Any]]:
    if not isinstance(schema, dict) or depth > 20:
        return []
    if "$ref" in schema:
        return _branches(resolve_ref(schema["$ref"], root), root, depth + 1)
    found = [schema]
    for key in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(key, ()):
            found += _branches(part, root, depth + 1)
    return found
