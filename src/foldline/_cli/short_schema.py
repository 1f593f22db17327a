"""Reads a JSON schema from one line (`name, age int, bio: one sentence`), from a file, or from JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from foldline.exceptions import UsageError
from foldline.utils.strings import suggestion

__all__ = ["read_schema"]

TYPES = {
    "str": "string",
    "string": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
}
FIELD = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?:\s+(?P<type>[A-Za-z]+)(?P<many>\[\])?)?(?:\s*:\s*(?P<about>.*))?",
    re.DOTALL,
)


def read_schema(text: str, *, is_list: bool = False) -> dict[str, Any]:
    """Return the schema of a file, JSON or a line of fields; with `is_list`, of a list of such objects."""
    schema = _read_schema(text)
    if is_list:
        schema = {
            "type": "object",
            "properties": {"items": {"type": "array", "items": schema}},
            "required": ["items"],
        }
    return {"title": "answer", **schema}


def _read_schema(text: str) -> dict[str, Any]:
    if text.lstrip().startswith(("{", "[")):
        return _parse(text, "--schema")
    path = Path(text).expanduser()
    is_name = "\n" not in text and len(text) < 1000
    if is_name and (path.suffix == ".json" or "/" in text or path.is_file()):
        try:
            return _parse(path.read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise UsageError(
                f"{path}: the schema cannot be read: {error.strerror}; check the path"
            ) from error
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{path}: the schema is not JSON: it is not text; name another file"
            ) from error
    return _from_line(text)


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{source}: the schema is not JSON: {error}; write JSON, a file, or fields as in 'name, age int'"
        ) from error
    if not isinstance(schema, dict):
        raise UsageError(
            f'{source}: a JSON schema is an object, not a {type(schema).__name__}: write {{"type": "object", ...}}'
        )
    return schema


def _from_line(text: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for part in text.split("\n") if "\n" in text.strip() else text.split(","):
        if not part.strip():
            continue
        field = FIELD.fullmatch(part.strip())
        if field is None:
            raise UsageError(
                f"--schema: {part.strip()!r} is not a field: write `name`, `age int`, `tags str[]` or `bio: a sentence`"
            )
        properties[field["name"]] = _property(field)
    if not properties:
        raise UsageError("--schema is empty: write fields, as in --schema 'name, age int'")
    return {"type": "object", "properties": properties, "required": list(properties)}


def _property(field: re.Match[str]) -> dict[str, Any]:
    kind = field["type"] or "str"
    if kind not in TYPES:
        raise UsageError(
            f"--schema: {field['name']} has no type {kind!r}{suggestion(kind, TYPES)}: it is str, int, float or bool"
        )
    schema: dict[str, Any] = {"type": TYPES[kind]}
    if field["many"]:
        schema = {"type": "array", "items": schema}
    return {**schema, "description": field["about"].strip()} if field["about"] else schema
