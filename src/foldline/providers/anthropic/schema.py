"""JSON Schema -> the part of it that Anthropic enforces: closed objects, no bounds. Pure.

What it does not enforce is told in the description, so that the model still knows of it.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["encode_schema"]

Schema = dict[str, Any]

KEPT: Final = frozenset(
    {
        "$defs",
        "$ref",
        "allOf",
        "anyOf",
        "const",
        "default",
        "definitions",
        "description",
        "enum",
        "title",
        "type",
    }
)
BY_TYPE: Final = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items"}),
    "string": frozenset({"format"}),
}
FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
NAMED: Final = ("properties", "$defs", "definitions")
LISTS: Final = ("anyOf", "allOf")


def encode_schema(schema: Schema) -> Schema:
    """Return a schema in the words that Anthropic enforces."""
    schema = dict(schema)
    if "oneOf" in schema and "anyOf" not in schema:
        schema["anyOf"] = schema.pop("oneOf")
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    known = KEPT.union(*(BY_TYPE.get(str(one), frozenset()) for one in kinds))
    new = {name: value for name, value in schema.items() if name in known}
    lost = {name: value for name, value in schema.items() if name not in known}
    if schema.get("format") is not None and schema["format"] not in FORMATS:
        lost["format"] = new.pop("format", schema["format"])
    if schema.get("minItems") in (0, 1) and "array" in kinds:
        new["minItems"] = lost.pop("minItems")
    new |= _nested(new)
    if "object" in kinds:
        if new.get("additionalProperties"):
            lost["additionalProperties"] = new["additionalProperties"]
        new["additionalProperties"] = False
        new.setdefault("properties", {})
    if lost:
        told = "{" + ", ".join(f"{name}: {value}" for name, value in lost.items()) + "}"
        new["description"] = f"{new['description']}\n\n{told}" if new.get("description") else told
    return new


def _nested(schema: Schema) -> Schema:
    new: Schema = {}
    for name in NAMED:
        if isinstance(schema.get(name), dict):
            new[name] = {key: _inner(value) for key, value in schema[name].items()}
    for name in LISTS:
        if isinstance(schema.get(name), list):
            new[name] = [_inner(value) for value in schema[name]]
    if "items" in schema:
        new["items"] = _inner(schema["items"])
    return new


def _inner(value: object) -> object:
    return encode_schema(value) if isinstance(value, dict) else value
