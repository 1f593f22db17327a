"""Walks a value together with its schema: unknown properties, nulls for missing ones, JSON in strings. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from foldline.utils._schema_validate import resolve_ref
from foldline.utils.json import JsonError, repair_json
from foldline.utils.json_schema import validate

__all__ = [
    "branches_of",
    "definitions_of",
    "unknown_properties",
    "unpack_strings",
    "without_nulls",
]


def unknown_properties(value: object, schema: object, root: object, path: str) -> Iterator[str]:
    """Yield the paths of properties that a schema does not have, and that reading by it drops."""
    branches = branches_of(schema, root)
    if isinstance(value, list):
        for index, item in enumerate(value):
            item_schemas = [
                branch["items"] for branch in branches if isinstance(branch.get("items"), dict)
            ]
            if item_schemas:
                yield from unknown_properties(
                    item, {"anyOf": item_schemas}, root, f"{path}[{index}]"
                )
    if not isinstance(value, dict) or not any("properties" in branch for branch in branches):
        return
    is_open = any(branch.get("additionalProperties") not in (None, False) for branch in branches)
    for name, item in value.items():
        property_schemas = [
            branch["properties"][name]
            for branch in branches
            if name in branch.get("properties", {})
        ]
        property_path = f"{path}.{name}" if path else name
        if property_schemas:
            yield from unknown_properties(item, {"anyOf": property_schemas}, root, property_path)
        elif not is_open:
            yield property_path


def without_nulls(value: object, schema: object, root: object) -> object:
    """Drop nulls that the schema does not allow: they stand for missing properties."""
    branches = branches_of(schema, root)
    if isinstance(value, list):
        item_schema = {
            "anyOf": [
                branch["items"] for branch in branches if isinstance(branch.get("items"), dict)
            ]
        }
        return [without_nulls(item, item_schema, root) for item in value]
    if not isinstance(value, dict):
        return value
    present = {}
    for name, item in value.items():
        property_schemas = [
            branch["properties"][name]
            for branch in branches
            if name in branch.get("properties", {})
        ]
        is_required = any(name in branch.get("required", ()) for branch in branches)
        if (
            item is None
            and property_schemas
            and not is_required
            and validate(None, {"anyOf": property_schemas, **definitions_of(root)})
        ):
            continue
        present[name] = without_nulls(item, {"anyOf": property_schemas}, root)
    return present


def unpack_strings(value: object, schema: object, root: object, path: str) -> tuple[Any, list[str]]:
    """Parse JSON in strings where the schema has an object or a list; return where."""
    branches = branches_of(schema, root)
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
    repairs: list[str] = []
    if isinstance(value, list):
        item_schema = {
            "anyOf": [
                branch["items"] for branch in branches if isinstance(branch.get("items"), dict)
            ]
        }
        items = [
            unpack_strings(item, item_schema, root, f"{path}[{index}]")
            for index, item in enumerate(value)
        ]
        return [item for item, _ in items], [
            repair for _, item_repairs in items for repair in item_repairs
        ]
    if not isinstance(value, dict):
        return value, []
    unpacked = {}
    for name, item in value.items():
        property_schemas = [
            branch["properties"][name]
            for branch in branches
            if name in branch.get("properties", {})
        ]
        unpacked[name], item_repairs = unpack_strings(
            item, {"anyOf": property_schemas}, root, f"{path}.{name}" if path else name
        )
        repairs += item_repairs
    return unpacked, repairs


def definitions_of(root: Any) -> dict[str, Any]:  # noqa: ANN401  JSON Schema: a dict, or true and false
    """Return the definitions that references in a part of a schema may name."""
    return {key: root[key] for key in ("$defs", "definitions") if key in root}


def branches_of(schema: object, root: object, depth: int = 0) -> list[dict[str, Any]]:
    """Return a schema and its alternatives, without references."""
    if not isinstance(schema, dict) or depth > 20:
        return []
    if "$ref" in schema:
        return branches_of(resolve_ref(schema["$ref"], root), root, depth + 1)
    branches = [schema]
    for key in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(key, ()):
            branches += branches_of(part, root, depth + 1)
    return branches
