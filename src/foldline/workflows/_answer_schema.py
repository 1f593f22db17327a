"""The schema of an answer: its JSON form, which a question carries, and the check of answers against it.

A question is answered by another process than the one that asked, which knows the JSON schema and not the type. So an
answer is checked twice: by the schema before it is stored, and by the type when `interrupt()` returns it. The first
check accepts whatever the type may accept ("true" for a bool, as Pydantic does); a type whose own functions convert
values is checked by the second alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, Union

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError

from foldline.exceptions import UsageError
from foldline.utils._schema_validate import validate
from foldline.workflows.values import adapter_of

__all__ = ["AnswerSchema", "answer_schema", "check_answer", "plain_answer", "read_answer"]

CONVERTERS = frozenset({"function-before", "function-wrap", "function-plain"})
"""Steps of a validation that may accept what the JSON schema does not show."""
OTHER_NAMES = ("populate_by_name", "validate_by_name", "from_attributes")
BOUNDS = {
    "minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt",
    "minLength": "min_length", "maxLength": "max_length", "minItems": "min_length", "maxItems": "max_length",
}  # fmt: skip
TYPES: dict[str, Any] = {
    "boolean": bool, "integer": int, "number": float, "string": str, "null": None,
}  # fmt: skip
MAX_DEPTH = 20


class AnswerSchema(NamedTuple):
    """The JSON schema of an answer, and how it is checked before the answer is stored."""

    json: dict[str, Any]
    check: str
    """"schema": the JSON schema as it is; "type": as Pydantic would; "later": only by `interrupt()`."""


def answer_schema(declared: object) -> AnswerSchema | None:
    """Return the schema of a `response_schema`: a type, or a JSON schema; None if there is none."""
    if declared is None:
        return None
    if isinstance(declared, Mapping):
        return AnswerSchema(dict(declared), "schema")
    adapter = _adapter(declared)
    try:
        json = adapter.json_schema()
    except PydanticInvalidForJsonSchema as error:
        raise UsageError(
            f"response_schema={declared!r:.80} has no JSON schema, and a question is answered by programs that know "
            "nothing else: use plain fields, or pass a JSON schema"
        ) from error
    return AnswerSchema(json, "later" if _converts(adapter.core_schema) else "type")


def read_answer(answer: object, declared: object) -> object:
    """Return an answer as a value of its type; raise `ValidationError` if it does not fit."""
    if declared is None or isinstance(declared, Mapping):
        return answer
    return _adapter(declared).validate_python(answer)


def plain_answer(answer: object) -> object:
    """Return an answer as plain data, which can be stored: the type is known again where it is read."""
    if isinstance(answer, Enum):
        return answer.value
    if isinstance(answer, BaseModel) or (
        dataclasses.is_dataclass(answer) and not isinstance(answer, type)
    ):
        return TypeAdapter(type(answer)).dump_python(answer)
    return answer


def check_answer(answer: object, schema: AnswerSchema) -> None:
    """Raise `ValidationError` for an answer that cannot fit."""
    if schema.check == "type":
        TypeAdapter(_Annotations(schema.json).of(schema.json)).validate_python(answer)
    elif schema.check == "schema":
        issues = validate(answer, schema.json)
        if issues:
            raise ValidationError.from_exception_data(
                str(schema.json.get("title", "answer")), [_line(issue) for issue in issues]
            )


def _line(issue: Any) -> InitErrorDetails:  # noqa: ANN401  an issue of the schema's check
    text = str(issue).replace("{", "(").replace("}", ")")
    return InitErrorDetails(
        type=PydanticCustomError("json_schema", text), loc=(issue.path,), input=None
    )


def _adapter(declared: object) -> TypeAdapter[Any]:
    adapter = adapter_of(declared)
    if adapter is None:
        raise UsageError(
            f"response_schema={declared!r:.80}: pass a Pydantic model, a TypedDict, a dataclass or another type that "
            "Pydantic can validate, or a JSON schema"
        )
    return adapter


def _converts(node: object) -> bool:
    """Whether a validation may accept what the JSON schema does not show."""
    if isinstance(node, Mapping):
        if node.get("type") in CONVERTERS or any(node.get(key) for key in OTHER_NAMES):
            return True
        alias = node.get("validation_alias")
        if alias is not None and not isinstance(alias, str):
            return True
        return any(_converts(item) for item in node.values())
    return isinstance(node, list | tuple) and any(_converts(item) for item in node)


class _Annotations:
    """The types that accept what the type of a JSON schema may accept."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.definitions: Mapping[str, Any] = root.get("$defs", {})

    def of(self, schema: object, depth: int = 0) -> Any:  # noqa: ANN401  an annotation is any object
        """Return the annotation for a schema; `Any` for what cannot be checked here."""
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return Any
        if "$ref" in schema:
            name = str(schema["$ref"]).rpartition("/")[2]
            return self.of(self.definitions.get(name), depth + 1)
        if "enum" in schema or "const" in schema:
            values = schema.get("enum", [schema.get("const")])
            return Literal[tuple(values)] if _are_texts(values) else Any
        if "anyOf" in schema:
            return Union[tuple(self.of(part, depth + 1) for part in schema["anyOf"])]  # noqa: UP007  parts of a list
        reader = READERS.get(str(schema.get("type")))
        return Any if reader is None else reader(self, schema, depth)

    def atom(self, schema: Mapping[str, Any], depth: int) -> Any:  # noqa: ANN401  an annotation is any object
        """Return the annotation of a value without parts; a text in a format may come as an object."""
        if "format" in schema or "pattern" in schema or "contentEncoding" in schema:
            return Any
        return _bounded(TYPES[schema["type"]], schema)

    def array(self, schema: Mapping[str, Any], depth: int) -> Any:  # noqa: ANN401  an annotation is any object
        """Return the annotation of a list."""
        if "prefixItems" in schema:
            return list
        return _bounded(list[self.of(schema.get("items"), depth + 1)], schema)  # type: ignore[misc]

    def object(self, schema: Mapping[str, Any], depth: int) -> Any:  # noqa: ANN401  an annotation is any object
        """Return the annotation of an object: a model of its properties, or a dict."""
        if "properties" not in schema:
            return dict[Any, self.of(schema.get("additionalProperties"), depth + 1)]  # type: ignore[misc]
        required = schema.get("required", ())
        fields: dict[str, Any] = {}
        for number, (name, part) in enumerate(schema["properties"].items()):
            default = ... if name in required else None
            fields[f"field_{number}"] = (self.of(part, depth + 1), Field(default, alias=name))
        is_closed = schema.get("additionalProperties") is False
        config = ConfigDict(extra="forbid" if is_closed else "ignore", arbitrary_types_allowed=True)
        return create_model(str(schema.get("title", "answer")), __config__=config, **fields)


READERS: dict[str, Callable[[_Annotations, Mapping[str, Any], int], Any]] = {
    **dict.fromkeys(TYPES, _Annotations.atom),
    "array": _Annotations.array,
    "object": _Annotations.object,
}


def _bounded(annotation: Any, schema: Mapping[str, Any]) -> Any:  # noqa: ANN401  annotations are any object
    bounds: dict[str, Any] = {BOUNDS[key]: schema[key] for key in BOUNDS if key in schema}
    return Annotated[annotation, Field(**bounds)] if bounds else annotation


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
