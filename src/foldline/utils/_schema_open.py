"""Finds the parts of a JSON Schema that no closed schema can describe: objects with free keys, values of any type.

An object that is closed although its keys are free admits only `{}`: no answer could hold its data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from foldline.exceptions import MissingKeyError, UsageError
from foldline.utils._schema_validate import resolve_ref

__all__ = [
    "USE_A_TOOL",
    "OpenPart",
    "check_closable",
    "check_objects",
    "open_objects",
    "open_parts",
]

Schema = dict[str, Any]

FREE_KEYS: Final = "an object with free keys"
ANY_VALUE: Final = "a value of any type"
ANY_ITEMS: Final = "a list without a type for its items"
WAYS_OUT: Final = {
    FREE_KEYS: "make it a list of objects with a key and a value, or list its properties",
    ANY_VALUE: "give it a type",
    ANY_ITEMS: "give its items one type",
}
USE_A_TOOL: Final = 'ask with a tool (method="function_calling", in an agent ToolStrategy)'
"""The way out where a native response format closes every object."""
BRANCHES: Final = ("anyOf", "oneOf", "allOf")


class OpenPart(NamedTuple):
    """A part of a schema that cannot be closed."""

    path: str
    """The field, such as `rows[].scores`; empty for the schema itself."""
    kind: str

    def __str__(self) -> str:
        """Return the part as the subject of a sentence."""
        return f"{self.path or 'the schema'} is {self.kind}"


def open_parts(schema: object) -> Iterator[OpenPart]:
    """Yield the parts that cannot be closed, in the order of the schema; each definition is visited once."""
    root = schema if isinstance(schema, dict) else {}
    return _open_parts(schema, root, "", set())


def open_objects(schema: object) -> Iterator[OpenPart]:
    """Yield the objects with free keys: the parts that would become `{}` if they were closed."""
    return (part for part in open_parts(schema) if part.kind is FREE_KEYS)


def check_closable(schema: object, name: object) -> None:
    """Raise for a schema that strict mode cannot describe: it closes every object and needs a type for every value."""
    _refuse(next(open_parts(schema), None), name, "strict=True", "leave out strict=True")


def check_objects(schema: object, name: object, user: str, way_out: str) -> None:
    """Raise for a schema whose objects cannot be closed, naming what closes them and the way out."""
    _refuse(next(open_objects(schema), None), name, user, way_out)


def _refuse(part: OpenPart | None, name: object, user: str, way_out: str) -> None:
    if part is not None:
        raise UsageError(
            f"{name or 'schema'}: {part}, which {user} cannot describe: {way_out}, or {WAYS_OUT[part.kind]}"
        )


def _open_parts(node: object, root: Schema, path: str, visited: set[str]) -> Iterator[OpenPart]:
    if not isinstance(node, dict):
        if node is not False:  # True admits anything
            yield OpenPart(path, ANY_VALUE)
        return
    ref = node.get("$ref")
    if isinstance(ref, str):
        if ref not in visited:
            visited.add(ref)
            with suppress(UsageError, MissingKeyError):  # of another document: the provider decides
                yield from _open_parts(resolve_ref(ref, root), root, path, visited)
        return
    if "enum" in node or "const" in node:
        return
    branches = [branch for key in BRANCHES for branch in node.get(key) or ()]
    for branch in branches:
        yield from _open_parts(branch, root, path, visited)
    kind = node.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "object" in kinds or "properties" in node:
        yield from _open_fields(node, root, path, visited)
    elif "array" in kinds or "items" in node:
        yield from _open_items(node, root, path, visited)
    elif kind is None and not branches:
        yield OpenPart(path, ANY_VALUE)


def _open_items(node: Schema, root: Schema, path: str, visited: set[str]) -> Iterator[OpenPart]:
    if node.get("items"):
        yield from _open_parts(node["items"], root, f"{path}[]", visited)
    else:
        yield OpenPart(path, ANY_ITEMS)


def _open_fields(node: Schema, root: Schema, path: str, visited: set[str]) -> Iterator[OpenPart]:
    others = node.get("additionalProperties", "properties" not in node)
    if others is not False or node.get("patternProperties"):
        yield OpenPart(path, FREE_KEYS)
    for name, part in (node.get("properties") or {}).items():
        yield from _open_parts(part, root, f"{path}.{name}" if path else name, visited)
