"""Checks a structured answer field by field while it streams, and says as soon as it can no longer fit. Pure.

A field is checked once, when its value is complete: by its type, its constraints and its validators. What a later part
of the answer or a repair could still mend is left to the check of the finished answer. So a field is rejected here only
if the whole answer would be rejected there.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WrapValidator,
)
from pydantic.fields import FieldInfo

from foldline.language_models.structured._schema_walk import branches_of, definitions_of
from foldline.utils._json_partial import Path
from foldline.utils.json import JsonError, PartialJson, parse_strict
from foldline.utils.json_schema import validate

__all__ = ["FieldCheck"]

FENCES = ("```json", "```JSON", "```")
NOTHING: Any = object()
CONVERTERS = (BeforeValidator, WrapValidator, PlainValidator)
FROZEN = frozenset({"frozen_field", "frozen_instance"})
Shape: TypeAlias = Any
"""What stands at a path: an annotation, or a JSON Schema."""


class FieldCheck:
    """Reads the text of one answer, and finds the first field that cannot be right."""

    def __init__(
        self,
        definition: Any,  # noqa: ANN401  a class, or a JSON Schema
        json_schema: Mapping[str, Any],
        *,
        repairs: bool,
        skips_null: bool,
    ) -> None:
        """Check by a model, a dataclass, or else by the JSON Schema.

        With `repairs` JSON in a text counts as that JSON. With `skips_null` a null stands for a missing value.
        """
        is_class = isinstance(definition, type) and (
            issubclass(definition, BaseModel) or dataclasses.is_dataclass(definition)
        )
        self._root: Shape = definition if is_class else json_schema
        self._find_issue: Callable[[Path, Any], str | None]
        self._find_issue = self._class_issue if is_class else self._schema_issue
        self._repairs = repairs
        self._skips_null = skips_null
        self._parser = PartialJson(on_value=self._check)
        self._prefix: str | None = ""
        """Text before the object; None once it has begun."""
        self._is_over = False
        self.issue: str | None = None
        """What is wrong, with the path of the field; None as long as the answer may still fit."""

    @property
    def value(self) -> object:
        """The object so far."""
        return self._parser.value()

    def feed(self, text: str) -> str | None:
        """Read more text; return what is wrong, if the answer can no longer fit."""
        if self._prefix is not None:
            text = self._begin(text)
        if text and not self._is_over:
            self._parser.feed(text)
        return self.issue

    def _begin(self, text: str) -> str:
        """Return the text from the object on. Words before it may hold another object: then the end decides."""
        start = ((self._prefix or "") + text).lstrip()
        for fence in FENCES:
            if start.startswith(fence):
                start = start[len(fence) :].lstrip()
                break
        if start.startswith("{"):
            self._prefix = None
            return start
        if start and not any(fence.startswith(start) for fence in FENCES):
            self._is_over = True
        self._prefix = start
        return ""

    def _check(self, path: Path, value: Any) -> None:  # noqa: ANN401  any JSON
        if not path or self.issue is not None or (value is None and self._skips_null):
            return
        issue = self._find_issue(path, value)
        if issue is not None and self._repairs and isinstance(value, str):
            try:
                unpacked = parse_strict(value)
            except JsonError:
                pass
            else:
                issue = self._find_issue(path, unpacked)
        if issue is not None:
            self.issue = f"{'.'.join(map(str, path))}: {issue}"
            self._is_over = True

    # -- by a class

    def _class_issue(self, path: Path, value: Any) -> str | None:  # noqa: ANN401  any JSON
        *outer, name = path
        parent: Shape = self._root
        for step in outer:
            parent = _inside(parent, step)
        if isinstance(parent, type) and issubclass(parent, BaseModel) and isinstance(name, str):
            return _field_issue(parent, name, value)
        shape = _inside(parent, name)
        return None if shape is NOTHING else _adapter_issue(shape, value)

    # -- by a JSON Schema

    def _schema_issue(self, path: Path, value: Any) -> str | None:  # noqa: ANN401  any JSON
        schema: Shape = self._root
        for step in path:
            schema = _schema_inside(schema, step, self._root)
            if schema is NOTHING:
                return None
        issues = validate(value, {**definitions_of(self._root), **schema})
        return str(issues[0].message) if issues else None


def _only_class(annotation: Shape) -> Shape:
    """Return an annotation without None and metadata; NOTHING if there is still a choice."""
    origin: Any = get_origin(annotation)
    if origin is Annotated:
        return _only_class(get_args(annotation)[0])
    if origin is Union or origin is types.UnionType:
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        return _only_class(kinds[0]) if len(kinds) == 1 else NOTHING
    return annotation


def _inside(shape: Shape, step: str | int) -> Shape:
    """Return what stands in a shape under a name or an index; NOTHING if that is not certain."""
    shape = _only_class(shape)
    if isinstance(shape, type) and isinstance(step, str):
        if issubclass(shape, BaseModel):
            field = _field(shape, step)
            return NOTHING if field is None or _converts(shape, *field) else field[1].annotation
        if dataclasses.is_dataclass(shape):
            return _hints(shape).get(step, NOTHING)
    origin: Any = get_origin(shape)
    arguments = get_args(shape)
    if origin is list and isinstance(step, int):
        return arguments[0]
    if origin is dict and isinstance(step, str):
        return arguments[1]
    return NOTHING


@lru_cache(maxsize=256)
def _hints(dataclass: type) -> dict[str, Any]:
    try:
        return get_type_hints(dataclass, include_extras=True)
    except NameError:
        return {}


@lru_cache(maxsize=256)
def _is_opaque(model: type[BaseModel]) -> bool:
    """Return whether a validator of the model sees the answer before its fields do, and may change it."""
    decorators = model.__pydantic_decorators__
    modes = {each.info.mode for each in decorators.model_validators.values()}
    return bool(modes - {"after"} or decorators.root_validators)


def _converts(model: type[BaseModel], name: str, info: FieldInfo) -> bool:
    """Return whether a validator of a field sees its value before its type does, and may change what is inside."""
    if any(isinstance(each, CONVERTERS) for each in info.metadata):
        return True
    decorators = model.__pydantic_decorators__
    return bool(decorators.validators) or any(
        each.info.mode != "after" and not {name, "*"}.isdisjoint(each.info.fields)
        for each in decorators.field_validators.values()
    )


def _field(model: type[BaseModel], key: str) -> tuple[str, FieldInfo] | None:
    """Return the name and the field that a key of the answer sets; None if that is not certain."""
    if _is_opaque(model):
        return None
    by_alias = model.model_config.get("validate_by_alias", True)
    for name, info in model.model_fields.items():
        alias = info.validation_alias if by_alias else None
        if alias is not None and not isinstance(alias, str):
            return None
        if key == (alias or name):
            return name, info
    return None


def _field_issue(model: type[BaseModel], key: str, value: Any) -> str | None:  # noqa: ANN401  any JSON
    """Return what a field's type, constraints and validators say of a value."""
    found = _field(model, key)
    if found is None:
        return None
    name, info = found
    try:
        model.__pydantic_validator__.validate_assignment(model.model_construct(), name, value)
    except ValidationError as error:
        own = [
            each for each in error.errors(include_url=False) if each["loc"][:1] in ((name,), (key,))
        ]
        if own and own[0]["type"] not in FROZEN:
            return _message(own[0], 1)
        if own:  # of a frozen model nothing can be set: without its validators
            return _adapter_issue(Annotated[info.annotation, *info.metadata], value)
    except Exception:  # noqa: BLE001  a validator needs other fields: the finished answer decides
        return None
    return None


def _adapter_issue(annotation: Shape, value: Any) -> str | None:  # noqa: ANN401  any JSON
    try:
        _adapter(annotation).validate_python(value)
    except ValidationError as error:
        return _message(error.errors(include_url=False)[0], 0)
    except Exception:  # noqa: BLE001  a validator needs more, or the type is not known yet
        return None
    return None


@lru_cache(maxsize=256)
def _adapter(annotation: Any) -> TypeAdapter[Any]:  # noqa: ANN401  an annotation is any object
    return TypeAdapter(annotation)


def _message(error: Any, depth: int) -> str:  # noqa: ANN401  Pydantic's details
    inner = ".".join(map(str, error["loc"][depth:]))
    return f"{inner}: {error['msg']}" if inner else str(error["msg"])


def _schema_inside(schema: Shape, step: str | int, root: Shape) -> Shape:
    """Return the schema of a property or an item; NOTHING if a branch of it says nothing of it."""
    branches = branches_of(schema, root)
    if (
        "$ref" not in schema and len(branches) > 1
    ):  # allOf, anyOf, oneOf: the finished answer decides
        return NOTHING
    branch = branches[0] if branches else {}
    if isinstance(step, int):
        inner = branch.get("items") if "prefixItems" not in branch else None
    else:
        inner = (branch.get("properties") or {}).get(step)
    return inner if isinstance(inner, Mapping) else NOTHING
