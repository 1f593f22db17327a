"""JSON Schema -> the subset that Anthropic enforces: closed objects, no bounds. Pure.

Keywords that it does not enforce are written into the description, so that the model still sees them.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["encode_schema"]

Schema = dict[str, Any]

COMMON_KEYWORDS: Final = frozenset(
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
TYPE_KEYWORDS: Final = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items"}),
    "string": frozenset({"format"}),
}
FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
SCHEMA_MAPS: Final = ("properties", "$defs", "definitions")
SCHEMA_LISTS: Final = ("anyOf", "allOf")


def encode_schema(schema: Schema) -> Schema:
    """Return a schema with only the keywords that Anthropic enforces."""
    schema = dict(schema)
    if "oneOf" in schema and "anyOf" not in schema:
        schema["anyOf"] = schema.pop("oneOf")
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    enforced = COMMON_KEYWORDS.union(*(TYPE_KEYWORDS.get(str(kind), frozenset()) for kind in kinds))
    encoded = {name: value for name, value in schema.items() if name in enforced}
    unenforced = {name: value for name, value in schema.items() if name not in enforced}
    if schema.get("format") is not None and schema["format"] not in FORMATS:
        unenforced["format"] = encoded.pop("format", schema["format"])
    if schema.get("minItems") in (0, 1) and "array" in kinds:
        encoded["minItems"] = unenforced.pop("minItems")
    encoded |= _nested(encoded)
    if "object" in kinds:
        encoded["additionalProperties"] = False
        encoded.setdefault("properties", {})
    if unenforced:
        note = "{" + ", ".join(f"{name}: {value}" for name, value in unenforced.items()) + "}"
        encoded["description"] = (
            f"{encoded['description']}\n\n{note}" if encoded.get("description") else note
        )
    return encoded


def _nested(schema: Schema) -> Schema:
    new: Schema = {}
    for name in SCHEMA_MAPS:
        if isinstance(schema.get(name), dict):
            new[name] = {key: _inner(value) for key, value in schema[name].items()}
    for name in SCHEMA_LISTS:
        if isinstance(schema.get(name), list):
            new[name] = [_inner(value) for value in schema[name]]
    if "items" in schema:
        new["items"] = _inner(schema["items"])
    return new


def _inner(value: object) -> object:
    return encode_schema(value) if isinstance(value, dict) else value
