"""The arguments of a tool as a Pydantic model, made from a function or a TypedDict; and the schema for the model."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, create_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.fields import FieldInfo

from foldline._lazy import publish
from foldline.exceptions import UsageError
from foldline.tools._arguments import (
    FILTERED_ARGS,
    INJECTION_MARKERS,
    Argument,
    Parameter,
    is_injected,
    is_unbound_method,
    read_arguments,
    schema_arguments,
)
from foldline.utils._docstrings import Docstring, parse_docstring
from foldline.utils._signature_schema import is_typed_dict, name_and_doc, own_doc


class Arguments(BaseModel):
    """Base of the models made here: unknown arguments are an error, where Pydantic would ignore them."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, protected_namespaces=(), defer_build=True
    )


def missing_value() -> None:
    """The default of an optional key of a TypedDict: a factory, so that the schema has no default."""


SCHEMA_CONFIG_KEYS = (
    "extra",
    "json_schema_extra",
    "alias_generator",
    "populate_by_name",
    "use_enum_values",
)
"""Settings of a model that affect its schema."""
OPTIONAL_FIELD: Any = Field(default_factory=missing_value)


def create_schema_from_function(
    model_name: str,
    func: Callable[..., Any],
    *,
    filter_args: Sequence[str] | None = None,
    parse_docstring: bool = False,
    error_on_invalid_docstring: bool = False,
    include_injected: bool = True,
) -> type[BaseModel]:
    """Make a model whose fields are the parameters of a function."""
    arguments = read_arguments(func)
    docstring = docstring_of(
        func, arguments, parse=parse_docstring, strict=error_on_invalid_docstring
    )
    excluded = set(FILTERED_ARGS if filter_args is None else filter_args)
    if is_unbound_method(func):
        excluded.add(arguments[0].name)
    selected = schema_arguments(
        [argument for argument in arguments if argument.name not in excluded]
    )
    if not include_injected:
        selected = [argument for argument in selected if not is_injected(argument.annotation)]
    fields = {
        argument.name: _field_of(argument, docstring.arguments.get(argument.name))
        for argument in selected
    }
    return make_model(model_name, fields, docstring.description)


def docstring_of(
    function: Callable[..., Any], arguments: Iterable[Argument], *, parse: bool, strict: bool
) -> Docstring:
    """Return a docstring: its text unchanged, or, if `parse`, its description and those of the arguments."""
    text = own_doc(function) if isinstance(function, type) else name_and_doc(function)[1]
    if not parse:
        # With its indentation, as LangChain sends it to the model.
        raw = getattr(function, "__doc__", None) if inspect.isroutine(function) else None
        return Docstring((raw or text).strip(), {})
    docstring = parse_docstring(text)
    names = {argument.name for argument in arguments}
    unknown = [name for name in docstring.arguments if name not in names]
    if strict and not text.strip():
        raise UsageError(
            f"{_name(function)} has no docstring to parse: write one in Google's style, or pass parse_docstring=False"
        )
    if strict and unknown:
        raise UsageError(
            f"{_name(function)}: Arg {unknown[0]} in docstring not found in function signature: rename it there, or "
            "pass error_on_invalid_docstring=False"
        )
    if strict and names - set(FILTERED_ARGS) and "\n\n" not in inspect.cleandoc(text):
        raise UsageError(
            f"{_name(function)}: Found invalid Google-Style docstring: after the description it needs an empty line "
            'and the section "Args:", or pass error_on_invalid_docstring=False'
        )
    return docstring


def _name(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _field_of(argument: Argument, description: str | None) -> tuple[Any, Any]:
    annotation, default = pydantic_annotation(argument.annotation), argument.default
    if argument.kind is Parameter.VAR_POSITIONAL:
        annotation, default = types.GenericAlias(list, (annotation,)), None
    elif argument.kind is Parameter.VAR_KEYWORD:
        annotation, default = types.GenericAlias(dict, (str, annotation)), None
    return with_description(annotation, description), ... if default is Parameter.empty else default


def with_description(annotation: object, description: str | None) -> Any:  # noqa: ANN401  annotations are any object
    """Return an annotation with a description: its own (`Annotated[int, "the age"]`), else this one."""
    notes = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    if any(isinstance(note, FieldInfo) and note.description for note in notes):
        return annotation
    text = next((note for note in notes if isinstance(note, str)), description)
    return Annotated[annotation, Field(description=text)] if text else annotation


def make_model(name: str, fields: dict[str, tuple[Any, Any]], doc: str = "") -> type[BaseModel]:
    """Make a model; a field whose name Pydantic reserves gets an alias."""
    definitions: dict[str, Any] = {}
    for index, (field, (annotation, default)) in enumerate(fields.items()):
        if field.startswith("_") or hasattr(BaseModel, field):
            definitions[f"field_{index}"] = (
                Annotated[annotation, Field(alias=field, title=_title(field))],
                default,
            )
        else:
            definitions[field] = (annotation, default)
    try:
        return create_model(
            name,
            __base__=Arguments,
            __doc__=doc or None,
            __cls_kwargs__={"defer_build": False},  # only the base is not built when it is imported
            **definitions,
        )
    except (PydanticUserError, PydanticSchemaGenerationError, NameError) as error:
        raise UsageError(f"the arguments of {name} have no schema: {error}") from error


def _title(name: str) -> str:
    return name.strip("_").replace("_", " ").title()


# -- types that Pydantic does not accept unchanged


def pydantic_annotation(annotation: object) -> Any:  # noqa: ANN401  annotations are any object
    """Return an annotation whose TypedDicts Pydantic accepts, with their text notes as descriptions."""
    if is_typed_dict(annotation):
        return _typed_dict(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None or origin is typing.Literal or not args:
        return annotation
    if origin is Annotated:
        return Annotated[pydantic_annotation(args[0]), *args[1:]]
    new_args = tuple(
        [pydantic_annotation(item) for item in arg]
        if isinstance(arg, list)
        else pydantic_annotation(arg)
        for arg in args
    )
    if all(new is old for new, old in zip(new_args, args, strict=True)):
        return annotation
    return Union[new_args] if origin in (Union, types.UnionType) else origin[new_args]  # noqa: UP007


@functools.lru_cache(256)
def _typed_dict(kind: type[Any]) -> object:
    keys = {}
    for name, annotation, required in _keys(kind):
        key_type = with_description(pydantic_annotation(annotation), None)
        keys[name] = key_type if required else typing_extensions.NotRequired[key_type]
    make: Any = typing_extensions.TypedDict
    typed_dict = make(kind.__name__, keys)
    typed_dict.__doc__ = own_doc(kind) or None
    return typed_dict


def _keys(kind: object) -> Iterator[tuple[str, Any, bool]]:
    """Yield the keys of a TypedDict: name, type, and whether the key is required."""
    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    for name, annotation in typing_extensions.get_type_hints(kind, include_extras=True).items():
        # If annotations are strings, the class cannot see `Required` and `NotRequired`.
        is_required, inner = name in required, annotation
        origin: Any = get_origin(inner)
        while origin in (typing_extensions.Required, typing_extensions.NotRequired):
            is_required = origin is typing_extensions.Required
            inner = get_args(inner)[0]
            origin = get_origin(inner)
        yield name, inner, is_required


def model_of(schema: Any) -> type[BaseModel] | None:  # noqa: ANN401  annotations are any object
    """Return the Pydantic model of a schema class: a Pydantic model, a TypedDict or a dataclass; else None."""
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema
    if is_typed_dict(schema):
        docstring = parse_docstring(own_doc(schema))
        fields = {
            name: (
                with_description(pydantic_annotation(kind), docstring.arguments.get(name)),
                ... if required else OPTIONAL_FIELD,
            )
            for name, kind, required in _keys(schema)
        }
        return make_model(schema.__name__, fields, docstring.description)
    if isinstance(schema, type) and dataclasses.is_dataclass(schema):
        return create_schema_from_function(schema.__name__, schema)
    return None


# -- the fields of a model


def get_all_basemodel_annotations(cls: object, *, default_to_bound: bool = True) -> dict[str, Any]:
    """Return the annotations of a model's fields with their notes, including inherited and generic ones."""
    origin = get_origin(cls) or cls
    if not (isinstance(origin, type) and issubclass(origin, BaseModel)):
        raise UsageError(f"{cls!r} is not a Pydantic model")
    return {
        name: _without_variable(field.rebuild_annotation(), default_to_bound=default_to_bound)
        for name, field in origin.model_fields.items()
    }


def _without_variable(annotation: object, *, default_to_bound: bool) -> object:
    if isinstance(annotation, typing.TypeVar) and default_to_bound:
        return annotation.__bound__ if annotation.__bound__ is not None else Any
    return annotation


def injected_fields(
    model: type[BaseModel], mark: type[Any] | tuple[type[Any], ...] = INJECTION_MARKERS
) -> list[str]:
    """Return the argument names of the fields that the program passes."""
    return [
        argument_name(name, field)
        for name, field in model.model_fields.items()
        if is_injected(field.rebuild_annotation(), mark)
    ]


def argument_name(name: str, field: FieldInfo) -> str:
    """Return the argument name of a field: its alias, if it has one."""
    alias = field.validation_alias or field.alias
    return alias if isinstance(alias, str) else name


def visible_model(model: type[BaseModel], name: str, description: str) -> type[BaseModel]:
    """Make the schema for the language model: without injected fields, with the tool's name."""
    injected = set(injected_fields(model))
    fields: dict[str, Any] = {
        key: (field.annotation, field)
        for key, field in model.model_fields.items()
        if argument_name(key, field) not in injected
    }
    config: Any = {"arbitrary_types_allowed": True, "protected_namespaces": ()}
    config |= {key: value for key, value in model.model_config.items() if key in SCHEMA_CONFIG_KEYS}
    visible: type[BaseModel] = create_model(
        name, __config__=config, __doc__=description or None, **fields
    )
    return visible


publish("foldline.tools", create_schema_from_function)
