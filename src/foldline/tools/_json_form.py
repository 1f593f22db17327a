"""JSON forms of a tool's schema class and functions, unless the tool's class defines serializers.

These are not `field_serializer`s: a field can have only one, which belongs to the author of the tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import PydanticUserError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation
from pydantic_core import CoreSchema, core_schema

from foldline.tools._schema import model_of

__all__ = ["with_json_forms"]


def schema_as_json(value: object) -> object:
    """Return a schema class as JSON Schema; if it has none, its repr."""
    model = None if isinstance(value, dict) else model_of(value)
    if model is None:
        return value
    try:
        return model.model_json_schema()
    except (PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation, PydanticUserError):
        return repr(value)


def function_as_json(value: object) -> str:
    """Return the qualified name of a function."""
    name = getattr(value, "__qualname__", type(value).__name__)
    return f"{getattr(value, '__module__', '')}.{name}"


JSON_FORMS: dict[str, Callable[[Any], Any]] = {
    "args_schema": schema_as_json,
    "func": function_as_json,
    "coroutine": function_as_json,
}


def with_json_forms(schema: CoreSchema) -> CoreSchema:
    """Add the JSON forms to the fields of a tool that have no serializer."""
    inner: Any = schema
    while isinstance(inner, dict) and inner.get("type") != "model-fields":
        inner = inner.get("schema")
    fields = inner["fields"] if isinstance(inner, dict) else {}
    for name, form in JSON_FORMS.items():
        field = fields.get(name, {}).get("schema")
        if field is not None and "serialization" not in field:
            field["serialization"] = core_schema.plain_serializer_function_ser_schema(
                form, when_used="json-unless-none"
            )
    return schema
