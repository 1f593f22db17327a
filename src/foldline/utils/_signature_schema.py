"""Converts Python types to JSON Schema: functions, TypedDicts, dataclasses and models, by pydantic."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Union, cast, get_args, get_origin

import typing_extensions
from pydantic import BaseModel, Field, PydanticUserError, TypeAdapter, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError
from pydantic.fields import FieldInfo

from foldline.exceptions import UsageError
from foldline.utils._docstrings import Docstring, parse_docstring

SKIPPED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
SCHEMA_ERRORS = (
    PydanticUserError,
    PydanticSchemaGenerationError,
    PydanticInvalidForJsonSchema,
    NameError,
)


class NoJsonSchemaError(UsageError, PydanticInvalidForJsonSchema):
    """A type cannot be described to a model."""

    def __init__(self, message: str) -> None:
        PydanticInvalidForJsonSchema.__init__(self, message)


def schema_of_type(kind: object) -> dict[str, Any]:
    """Return the JSON Schema of a type, as pydantic writes it."""
    try:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return _schema_of_model(kind)
        return TypeAdapter(_modelled(kind)).json_schema()
    except SCHEMA_ERRORS as error:
        raise NoJsonSchemaError(
            f"{kind!r} has no JSON Schema: {error}\nUse JSON-serializable types in it: Pydantic models, "
            "dataclasses, TypedDicts, str, int, list and the like."
        ) from error


SCHEMA_ATTRIBUTE = "__foldline_json_schema__"
"""Where a model class holds its JSON Schema: on itself, so that both are freed together."""


def _schema_of_model(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, a copy for each caller. Pydantic takes 0.3 ms to make one: it is cached."""
    if model.model_json_schema.__func__ is not BaseModel.model_json_schema.__func__:  # type: ignore[attr-defined]
        return model.model_json_schema()  # an author's own, which may return another each time
    cached = model.__dict__.get(SCHEMA_ATTRIBUTE)
    if cached is None or any(map(operator.is_not, cached[0], _schema_source(model))):
        schema = model.model_json_schema()  # may complete the model, and so change its source
        cached = (_schema_source(model), schema)
        setattr(model, SCHEMA_ATTRIBUTE, cached)
    return cast("dict[str, Any]", copy.deepcopy(cached[1]))


def _schema_source(model: type[BaseModel]) -> tuple[object, ...]:
    """Return what the JSON Schema of a model is made from: rebuilding the model replaces it."""
    return model.__dict__.get("__pydantic_core_schema__"), model.__doc__, model.model_config


def model_from_function(
    function: Callable[..., Any], *, name: str | None = None, docstring: Docstring | None = None
) -> type[BaseModel]:
    """Make a model whose fields are the parameters of a function; `*args` and `**kwargs` are left out."""
    description = docstring or parse_docstring(name_and_doc(function)[1])
    parameters = dict(_parameters(function))
    unknown = [
        argument for argument in description.arguments if argument not in _all_names(function)
    ]
    if unknown:
        raise UsageError(
            f"the docstring of {_name(function)} describes {unknown[0]!r}, which it does not take"
        )
    fields: dict[str, Any] = {}
    for key, (annotation, default) in parameters.items():
        described = _described(annotation, description.arguments.get(key))
        fields[key] = (_modelled(described), ... if default is inspect.Parameter.empty else default)
    try:
        return create_model(name or _name(function), **fields)
    except SCHEMA_ERRORS as error:
        raise UsageError(
            f"the parameters of {_name(function)} have no JSON Schema: {error}"
        ) from error


def model_from_typed_dict(kind: Any) -> type[BaseModel]:  # noqa: ANN401  a TypedDict is no type to the checker
    """Make a model of a TypedDict; `Annotated[int, 5, "the age"]` gives a default and a description."""
    docstring = parse_docstring(own_doc(kind))
    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    fields: dict[str, Any] = {}
    for key, annotation in _hints(kind).items():
        fields[key] = _typed_dict_field(annotation, key in required, docstring.arguments.get(key))
    model: type[BaseModel] = create_model(
        kind.__name__, __doc__=docstring.description or None, **fields
    )
    return model


def own_doc(kind: object) -> str:
    """Return the docstring written for this class, never an inherited or generated one."""
    doc = kind.__dict__.get("__doc__") if isinstance(kind, type) else inspect.getdoc(kind)
    if not doc or (dataclasses.is_dataclass(kind) and doc.startswith(f"{_name(kind)}(")):
        return ""
    return inspect.cleandoc(doc)


def name_and_doc(function: object) -> tuple[str, str]:
    """Return the name and docstring of a function, or of the target of a partial or a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type) or inspect.isroutine(function) or hasattr(function, "__name__"):
        return _name(function), inspect.getdoc(function) or ""
    kind = type(function)
    return kind.__name__, own_doc(kind) or inspect.getdoc(kind.__call__) or ""


def is_typed_dict(kind: object) -> bool:
    """Whether this is a TypedDict class, from typing or typing_extensions."""
    return typing_extensions.is_typeddict(kind)


def _name(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    hints = _hints(function)
    owner = _owner_parameter(function)
    for key, parameter in inspect.signature(function).parameters.items():
        if key == owner:
            continue
        annotation = hints.get(
            key, Any if parameter.annotation is parameter.empty else parameter.annotation
        )
        if parameter.kind not in SKIPPED and not _is_injected(annotation):
            yield key, (annotation, parameter.default)


def _owner_parameter(function: object) -> str | None:
    """Return the name of the first parameter of a method taken from its class (`Class.method`): `self` or `cls`."""
    if not inspect.isfunction(function) or "." not in function.__qualname__:
        return None
    if function.__qualname__.rpartition(".")[0].endswith("<locals>"):
        return None
    first = next(iter(inspect.signature(function).parameters), None)
    return first if first in ("self", "cls") else None


def _all_names(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def _hints(target: object) -> dict[str, Any]:
    while isinstance(target, functools.partial):
        target = target.func
    if not isinstance(target, type) and not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing_extensions.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"{_name(target)}: the annotation {error.name!r} cannot be found; define it at module level"
        ) from error
    except TypeError:
        return {}


def _is_injected(annotation: object) -> bool:
    """Whether the program sets it, not the model (`InjectedToolArg`, compared by name: it is in a higher layer)."""
    for mark in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
        kind = mark if isinstance(mark, type) else type(mark)
        if any(base.__name__ == "InjectedToolArg" for base in kind.__mro__):
            return True
    return False


def _described(annotation: object, description: str | None) -> object:
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    if any(isinstance(mark, FieldInfo) and mark.description for mark in marks):
        return annotation
    text = next((mark for mark in marks if isinstance(mark, str)), description)
    return Annotated[annotation, Field(description=text)] if text else annotation


def _typed_dict_field(annotation: object, required: bool, description: str | None) -> object:  # noqa: FBT001
    while get_origin(annotation) in (typing_extensions.Required, typing_extensions.NotRequired):
        annotation = get_args(annotation)[0]
    marks: tuple[Any, ...] = ()
    if get_origin(annotation) is Annotated:
        annotation, *others = get_args(annotation)
        marks = tuple(others)
    kind = Annotated[_modelled(annotation), *marks] if marks else _modelled(annotation)
    if not marks or isinstance(marks[0], FieldInfo):
        return _described(kind, description), ... if required else _Unset
    if len(marks) == 1 and isinstance(marks[0], str):
        return Annotated[kind, Field(description=marks[0])], ... if required else _Unset
    text = marks[1] if len(marks) > 1 and isinstance(marks[1], str) else description
    default = _Unset if marks[0] is None else marks[0]
    return Annotated[_modelled(annotation), Field(description=text)], default


def _unset() -> None:
    """The default of an optional key: a factory, so that no default is written into the schema."""


_Unset: Any = Field(default_factory=_unset)


def _modelled(annotation: object) -> Any:  # noqa: ANN401  annotations are any object
    """Replace TypedDicts by models: pydantic refuses those of `typing` before Python 3.12."""
    if is_typed_dict(annotation):
        return model_from_typed_dict(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None or origin is typing.Literal:
        return annotation
    if origin is Annotated:
        return Annotated[_modelled(args[0]), *args[1:]]
    new_args = tuple(_modelled(arg) for arg in args)
    if all(new is arg for new, arg in zip(new_args, args, strict=True)):
        return annotation
    return Union[new_args] if origin in (Union, types.UnionType) else origin[new_args]  # noqa: UP007
