"""The arguments of a tool as a Pydantic model: made from a function, or from a TypedDict; and the part a model sees."""

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
    MARKS,
    Argument,
    Parameter,
    for_the_model,
    is_injected,
    is_unbound_method,
    read_arguments,
)
from foldline.utils._signature_schema import is_typed_dict, name_and_doc, own_doc
from foldline.utils.docstrings import Docstring, parse_docstring


class Arguments(BaseModel):
    """Base of the models made here: what a function does not take is refused, where Pydantic would drop it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, protected_namespaces=()
    )


def not_said() -> None:
    """The default of a key that a TypedDict does not require: a factory, so that the schema shows no default."""


SHOWN_CONFIG = (
    "extra",
    "json_schema_extra",
    "alias_generator",
    "populate_by_name",
    "use_enum_values",
)
"""Settings of a model that its schema shows."""
NOT_SAID: Any = Field(default_factory=not_said)


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
    said = docstring_of(func, arguments, parse=parse_docstring, strict=error_on_invalid_docstring)
    left_out = set(FILTERED_ARGS if filter_args is None else filter_args)
    if is_unbound_method(func):
        left_out.add(arguments[0].name)
    kept = for_the_model([one for one in arguments if one.name not in left_out])
    if not include_injected:
        kept = [one for one in kept if not is_injected(one.annotation)]
    fields = {one.name: _field_of(one, said.arguments.get(one.name)) for one in kept}
    return make_model(model_name, fields, said.description)


def docstring_of(
    function: Callable[..., Any], arguments: Iterable[Argument], *, parse: bool, strict: bool
) -> Docstring:
    """Read a docstring: its text as it is, or, parsed, its description and what it says of each argument."""
    text = own_doc(function) if isinstance(function, type) else name_and_doc(function)[1]
    if not parse:
        # As written, indentation too: what a model is told does not change with the library.
        raw = getattr(function, "__doc__", None) if inspect.isroutine(function) else None
        return Docstring((raw or text).strip(), {})
    said = parse_docstring(text)
    names = {argument.name for argument in arguments}
    unknown = [name for name in said.arguments if name not in names]
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
    return said


def _name(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _field_of(argument: Argument, said: str | None) -> tuple[Any, Any]:
    annotation, default = ready(argument.annotation), argument.default
    if argument.kind is Parameter.VAR_POSITIONAL:
        annotation, default = types.GenericAlias(list, (annotation,)), None
    elif argument.kind is Parameter.VAR_KEYWORD:
        annotation, default = types.GenericAlias(dict, (str, annotation)), None
    return described(annotation, said), ... if default is Parameter.empty else default


def described(annotation: object, said: str | None) -> Any:  # noqa: ANN401  annotations are any object
    """Add a description: that of the annotation (`Annotated[int, "the age"]`), else the one given."""
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    if any(isinstance(mark, FieldInfo) and mark.description for mark in marks):
        return annotation
    text = next((mark for mark in marks if isinstance(mark, str)), said)
    return Annotated[annotation, Field(description=text)] if text else annotation


def make_model(name: str, fields: dict[str, tuple[Any, Any]], doc: str = "") -> type[BaseModel]:
    """Make a model; a field whose name Pydantic keeps for itself goes by an alias."""
    made: dict[str, Any] = {}
    for place, (field, (annotation, default)) in enumerate(fields.items()):
        if field.startswith("_") or hasattr(BaseModel, field):
            made[f"field_{place}"] = (
                Annotated[annotation, Field(alias=field, title=_title(field))],
                default,
            )
        else:
            made[field] = (annotation, default)
    try:
        return create_model(name, __base__=Arguments, __doc__=doc or None, **made)
    except (PydanticUserError, PydanticSchemaGenerationError, NameError) as error:
        raise UsageError(f"the arguments of {name} have no schema: {error}") from error


def _title(name: str) -> str:
    return name.strip("_").replace("_", " ").title()


# -- types Pydantic does not take as they are


def ready(annotation: object) -> Any:  # noqa: ANN401  annotations are any object
    """Return an annotation in which TypedDicts are ones that Pydantic takes, their text notes being descriptions."""
    if is_typed_dict(annotation):
        return _typed_dict(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None or origin is typing.Literal or not args:
        return annotation
    if origin is Annotated:
        return Annotated[ready(args[0]), *args[1:]]
    new = tuple(
        [ready(one) for one in arg] if isinstance(arg, list) else ready(arg) for arg in args
    )
    if all(one is other for one, other in zip(new, args, strict=True)):
        return annotation
    return Union[new] if origin in (Union, types.UnionType) else origin[new]  # noqa: UP007


@functools.lru_cache(256)
def _typed_dict(kind: type[Any]) -> object:
    keys = {}
    for name, annotation, required in _keys(kind):
        inner = described(ready(annotation), None)
        keys[name] = inner if required else typing_extensions.NotRequired[inner]
    make: Any = typing_extensions.TypedDict
    made = make(kind.__name__, keys)
    made.__doc__ = own_doc(kind) or None
    return made


def _keys(kind: object) -> Iterator[tuple[str, Any, bool]]:
    """Return the keys of a TypedDict: name, type, and whether it must be there."""
    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    for name, annotation in typing_extensions.get_type_hints(kind, include_extras=True).items():
        # Where annotations are text, the class itself could not see these words.
        is_required, bare = name in required, annotation
        origin: Any = get_origin(bare)
        while origin in (typing_extensions.Required, typing_extensions.NotRequired):
            is_required = origin is typing_extensions.Required
            bare = get_args(bare)[0]
            origin = get_origin(bare)
        yield name, bare, is_required


def model_of(schema: Any) -> type[BaseModel] | None:  # noqa: ANN401  annotations are any object
    """Return the model of an `args_schema` that is a class: a Pydantic model, a TypedDict or a dataclass."""
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema
    if is_typed_dict(schema):
        said = parse_docstring(own_doc(schema))
        fields = {
            name: (
                described(ready(kind), said.arguments.get(name)),
                ... if required else NOT_SAID,
            )
            for name, kind, required in _keys(schema)
        }
        return make_model(schema.__name__, fields, said.description)
    if isinstance(schema, type) and dataclasses.is_dataclass(schema):
        return create_schema_from_function(schema.__name__, schema)
    return None


# -- the fields of a model


def get_all_basemodel_annotations(cls: object, *, default_to_bound: bool = True) -> dict[str, Any]:
    """Return the annotations of a model's fields, inherited and generic ones included, their notes kept."""
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
    model: type[BaseModel], mark: type[Any] | tuple[type[Any], ...] = MARKS
) -> list[str]:
    """Return the names, as a caller writes them, of the fields that the program fills in."""
    return [
        argument_name(name, field)
        for name, field in model.model_fields.items()
        if is_injected(field.rebuild_annotation(), mark)
    ]


def argument_name(name: str, field: FieldInfo) -> str:
    """Return the name by which callers say a field."""
    alias = field.validation_alias or field.alias
    return alias if isinstance(alias, str) else name


def visible_model(model: type[BaseModel], name: str, description: str) -> type[BaseModel]:
    """Make the model a language model sees: without what the program fills in, under the tool's name."""
    hidden = set(injected_fields(model))
    fields: dict[str, Any] = {
        key: (field.annotation, field)
        for key, field in model.model_fields.items()
        if argument_name(key, field) not in hidden
    }
    config: Any = {"arbitrary_types_allowed": True, "protected_namespaces": ()}
    config |= {key: one for key, one in model.model_config.items() if key in SHOWN_CONFIG}
    made: type[BaseModel] = create_model(
        name, __config__=config, __doc__=description or None, **fields
    )
    return made


publish("foldline.tools", create_schema_from_function)
