"""JSON Schema: references, titles, the strict form and a small validator.

The validator is hand-written because the core of foldline has three dependencies and `jsonschema` is not one of them;
the tests compare it with `jsonschema`. It checks draft 2020-12's assertions on types, values, objects and arrays;
`format` and the `unevaluated*` keywords are not checked.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from foldline.exceptions import UsageError
from foldline.utils._schema_validate import resolve_ref, validate

__all__ = [
    "dereference_refs",
    "validate",
]

MAX_NODES = 100_000
Schema = dict[str, Any]


def dereference_refs(
    schema_obj: Schema,
    *,
    full_schema: Schema | None = None,
    skip_keys: Sequence[str] | None = None,
) -> Schema:
    """Return a schema with its references replaced by their targets.

    The definitions stay unchanged (`skip_keys=()` replaces the references in them too). A recursive reference (a tree
    of trees) becomes `{}`, which admits anything; `inline_refs` keeps it. Keys next to a `$ref` take precedence over
    its target.
    """
    root = schema_obj if full_schema is None else full_schema
    skipped = frozenset(("$defs",) if skip_keys is None else skip_keys)
    result: Schema = _Dereference(root, skipped, keeps_cycles=False).replace(schema_obj, ())
    return result


def inline_refs(schema: Schema) -> Schema:
    """Return a schema without definitions: references are replaced by their targets.

    A recursive reference (a tree of trees) stays, together with its definition, so the meaning is unchanged. Keys next
    to a `$ref` take precedence over its target.
    """
    work = _Dereference(schema, frozenset(), keeps_cycles=True)
    top = {key: item for key, item in schema.items() if key not in ("$defs", "definitions")}
    result: Schema = work.replace(top, ())
    for name in ("$defs", "definitions"):
        definitions = work.recursive_definitions(name)
        if definitions:
            result[name] = definitions
    return result


class _Dereference:
    def __init__(self, root: Schema, skip_keys: frozenset[str], *, keeps_cycles: bool) -> None:
        self._root = root
        self._skip_keys = skip_keys
        self._keeps_cycles = keeps_cycles
        self._nodes = 0
        self._recursive: set[str] = set()

    def replace(self, node: object, above: tuple[str, ...]) -> Any:  # noqa: ANN401  the same kind of JSON as was given
        self._nodes += 1
        if self._nodes > MAX_NODES or len(above) > 200:
            raise UsageError(
                f"schema grows beyond {MAX_NODES} parts when its references are replaced"
            )
        if isinstance(node, list):
            return [self.replace(item, above) for item in node]
        if not isinstance(node, dict):
            return node
        ref = node.get("$ref")
        if isinstance(ref, str):
            return self._replace_ref(ref, node, above)
        return self._replace_items(node, above)

    def _replace_items(self, node: Schema, above: tuple[str, ...]) -> Schema:
        return {
            key: copy.deepcopy(item) if key in self._skip_keys else self.replace(item, above)
            for key, item in node.items()
        }

    def _replace_ref(self, ref: str, node: Schema, above: tuple[str, ...]) -> object:
        siblings = self._replace_items(
            {key: item for key, item in node.items() if key != "$ref"}, above
        )
        target = resolve_ref(ref, self._root)
        if ref in above or ref == "#":
            self._recursive.add(ref)
            return {"$ref": ref, **siblings} if self._keeps_cycles else siblings
        inlined = self.replace(target, (*above, ref))
        if not siblings:
            return inlined
        return {**inlined, **siblings} if isinstance(inlined, dict) else siblings

    def recursive_definitions(self, name: str) -> Schema:
        """Return the definitions that recursive references need, directly or indirectly."""
        needed: Schema = {}
        definitions = self._root.get(name)
        if not isinstance(definitions, dict):
            return needed
        waiting = [ref.split("/")[2] for ref in self._recursive if ref.startswith(f"#/{name}/")]
        while waiting:
            key = waiting.pop()
            if key not in needed and key in definitions:
                needed[key] = definitions[key]
                refs = _refs_in(definitions[key])
                waiting += [ref.split("/")[2] for ref in refs if ref.startswith(f"#/{name}/")]
        return needed


def _refs_in(node: object) -> list[str]:
    if isinstance(node, list):
        return [ref for item in node for ref in _refs_in(item)]
    if not isinstance(node, dict):
        return []
    own_refs = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own_refs + [ref for item in node.values() for ref in _refs_in(item)]


def remove_titles(schema: object, *, is_name_map: bool = False) -> Any:  # noqa: ANN401  the same kind of JSON as was given
    """Remove the titles that pydantic writes; a property named "title" stays."""
    if isinstance(schema, list):
        return [remove_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: Schema = {}
    for key, item in schema.items():
        if not is_name_map and key == "title" and isinstance(item, str):
            continue
        if not is_name_map and key in ("default", "const", "enum", "examples"):
            result[key] = item
        else:
            names = key in ("properties", "$defs", "definitions", "patternProperties")
            result[key] = remove_titles(item, is_name_map=names and not is_name_map)
    return result


def strict_schema(schema: Schema, *, optional_as_nullable: bool = True) -> Schema:
    """Return the form of OpenAI's strict mode: closed objects, every property required.

    Optional properties become nullable, by default.
    """
    strict: Schema = _strict(schema, nullable=optional_as_nullable)
    return strict


def _strict(node: object, *, nullable: bool) -> Any:  # noqa: ANN401  the same kind of JSON as was given
    if isinstance(node, list):
        return [_strict(item, nullable=nullable) for item in node]
    if not isinstance(node, dict):
        return node
    strict: Schema = {}
    for key, item in node.items():
        if key in ("default", "const", "enum", "examples"):
            strict[key] = item
        elif key in ("properties", "$defs", "definitions") and isinstance(item, dict):
            strict[key] = {name: _strict(part, nullable=nullable) for name, part in item.items()}
        else:
            strict[key] = _strict(item, nullable=nullable)
    properties = strict.get("properties")
    if node.get("type") == "object" or isinstance(properties, dict):
        strict["additionalProperties"] = False
    if isinstance(properties, dict) and properties:
        required = node.get("required") or []
        if nullable:
            strict["properties"] = {
                name: part if name in required else _nullable(part)
                for name, part in properties.items()
            }
        strict["required"] = list(properties)
    return strict


def _nullable(schema: object) -> object:
    if not isinstance(schema, dict) or _admits_null(schema):
        return schema
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema and "const" not in schema:
        return {**schema, "type": [kind, "null"]}
    if isinstance(schema.get("anyOf"), list):
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    outer = {key: schema[key] for key in ("description", "default") if key in schema}
    inner = {key: item for key, item in schema.items() if key not in outer}
    return {"anyOf": [inner, {"type": "null"}], **outer}


def _admits_null(schema: Schema) -> bool:
    """Whether null fits, as far as the schema itself shows; references are not followed."""
    kind = schema.get("type")
    if kind is not None:
        return kind == "null" or (isinstance(kind, list) and "null" in kind)
    if isinstance(schema.get("anyOf"), list):
        return any(isinstance(part, dict) and _admits_null(part) for part in schema["anyOf"])
    return not schema.keys() & {"$ref", "allOf", "oneOf", "not", "enum", "const", "if"}
