"""The input and output types of a runnable, and the Pydantic and JSON schemas made from them.

Types come from the generic arguments of a class (`Runnable[str, int]`), from a function's annotations, or from the
parts of a composition. Nothing here runs unless it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, create_model

from foldline._config import RunnableConfig

if TYPE_CHECKING:
    from foldline.runnables.graph import Graph
    from foldline.runnables.utils import ConfigurableFieldSpec

T = TypeVar("T")
Fields = Mapping[str, Any]
"""Field name -> (type, default), as `create_model` takes them."""


# -- generic arguments


def input_type(runnable: object) -> object:
    """Return the type of a runnable's input, as declared by its class."""
    return _declared_type(runnable, 0)


def output_type(runnable: object) -> object:
    """Return the type of a runnable's output, as declared by its class."""
    return _declared_type(runnable, 1)


def _declared_type(runnable: object, position: int) -> object:
    # `RunnableBranch[int, str](...)` declares the types of one object.
    instance_types = get_args(getattr(runnable, "__orig_class__", None))
    instance_type = (
        _without_type_variable(instance_types[position]) if len(instance_types) >= 2 else Any
    )
    return (
        _without_type_variable(io_types(cast("Any", type(runnable)))[position])
        if instance_type is Any
        else instance_type
    )


def config_model(name: str, specs: Sequence[Any], include: Sequence[str] | None) -> type[BaseModel]:
    """Return the model of a config: the configurable fields, and the keys in `include`."""
    fields: dict[str, Any] = {}
    if specs:
        configurable = object_model("Configurable", {s.id: _configurable(s) for s in specs})
        fields["configurable"] = (configurable, None)
    hints = get_type_hints(RunnableConfig) if include else {}
    for key in hints:
        if key in (include or ()) and key != "configurable":
            fields[key] = (hints[key], None)
    return object_model(name, fields)


def prompts_of(graph: Graph) -> list[Any]:
    """Return the prompts among the nodes of a graph."""
    nodes = graph.nodes.values()
    return [node.data for node in nodes if getattr(node.data, "_run_type", None) == "prompt"]


@cache
def io_types(cls: Any) -> tuple[Any, Any]:  # noqa: ANN401  a class; `cache` needs a hashable type
    """Return the two arguments of `Runnable[...]` in the ancestry of a class, with type variables resolved."""
    arguments = _runnable_arguments(cls, ())
    return (arguments[0], arguments[1]) if arguments else (Any, Any)


def _runnable_arguments(cls: type[Any], arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    if _is_runnable(cls):
        return arguments if len(arguments) >= 2 else (Any, Any)
    type_variables = dict(zip(cls.__dict__.get("__parameters__", ()), arguments, strict=False))
    for base in cls.__dict__.get("__orig_bases__") or cls.__bases__:
        origin = get_origin(base) or base
        if isinstance(origin, type) and any(_is_runnable(ancestor) for ancestor in origin.__mro__):
            base_arguments = tuple(
                _resolve(argument, type_variables) for argument in get_args(base)
            )
            if found := _runnable_arguments(origin, base_arguments):
                return found
    return None


def _is_runnable(cls: type[Any]) -> bool:
    return cls.__name__ == "Runnable" and cls.__module__ == "foldline.runnables.base"


def _resolve(argument: Any, type_variables: dict[Any, Any]) -> object:  # noqa: ANN401  annotations are any object
    if isinstance(argument, TypeVar):
        return type_variables.get(argument, argument)
    parameters = getattr(argument, "__parameters__", ())
    if parameters and any(parameter in type_variables for parameter in parameters):
        return argument[tuple(type_variables.get(parameter, parameter) for parameter in parameters)]
    return argument


def _without_type_variable(annotation: object) -> object:
    return Any if isinstance(annotation, TypeVar) else annotation


# -- models


def value_model(name: str, kind: object) -> type[BaseModel]:
    """Return a model of one value: the type itself if it is a model, else a root model named `name`."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    try:
        return _root_model(name, kind)
    except TypeError:  # an annotation that cannot be hashed
        return _root_model.__wrapped__(name, kind)


@cache
def _arbitrary_root() -> Any:  # noqa: ANN401  a class that is created on demand
    # Created on demand: importing `RootModel` makes Pydantic build a schema, for which it searches all installed
    # packages for plugins.
    from pydantic import RootModel  # noqa: PLC0415

    class ArbitraryRoot(RootModel[T], Generic[T]):
        model_config = ConfigDict(arbitrary_types_allowed=True)

    return ArbitraryRoot


@lru_cache(maxsize=256)
def _root_model(name: str, kind: object) -> type[BaseModel]:
    return cast("type[BaseModel]", create_model(name, __base__=_arbitrary_root()[kind]))


def object_model(name: str, fields: Fields) -> type[BaseModel]:
    """Create a model with several fields."""
    return cast("type[BaseModel]", create_model(name, __base__=_NamedModel, **_safe_fields(fields)))


class _NamedModel(BaseModel):
    """A docstring of ours must not appear in a user's schema."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, protected_namespaces=(), defer_build=True
    )


_NamedModel.__doc__ = None


def _safe_fields(fields: Fields) -> dict[str, Any]:
    """Rename fields that Pydantic rejects (`_x`, `model_dump`), with the key as their alias."""
    safe: dict[str, Any] = {}
    for key, (kind, default) in fields.items():
        if key.isidentifier() and not key.startswith("_") and not hasattr(BaseModel, key):
            safe[key] = (kind, default)
        else:
            default_argument = {} if default is ... else {"default": default}
            title = key.replace("_", " ").strip().title() or key
            safe[f"key_{len(safe)}"] = (kind, Field(alias=key, title=title, **default_argument))
    return safe


def is_object(model: type[BaseModel]) -> bool:
    """Whether a model has named fields."""
    return not model.__pydantic_root_model__


def is_anything(model: type[BaseModel]) -> bool:
    """Whether a model accepts every value."""
    return (
        not is_object(model)
        and _without_type_variable(model.model_fields["root"].annotation) is Any
    )


def fields_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a model as `object_model` takes them."""
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        default = ... if field.is_required() else field.get_default(call_default_factory=True)
        fields[field.alias or name] = (field.annotation, default)
    return fields


def _configurable(spec: ConfigurableFieldSpec) -> object:
    return spec.annotation, Field(spec.default, title=spec.name, description=spec.description)


def unique_specs(groups: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the configurable fields of all groups, each id once."""
    from foldline.runnables.utils import get_unique_config_specs  # noqa: PLC0415

    return get_unique_config_specs(spec for group in groups for spec in group)


def indent_nested(text: str) -> str:
    """Indent all lines but the first by two, for nested `repr`s."""
    return text.replace("\n", "\n  ")
