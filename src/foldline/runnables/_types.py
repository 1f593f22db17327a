"""What a runnable takes and gives: its types, and the Pydantic and JSON schemas made of them.

Types come from a class's generic arguments (`Runnable[str, int]`), from a function's annotations, or from the parts of
a composition. Nothing here runs unless asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from foldline._lazy import late

if TYPE_CHECKING:
    from foldline import _config
    from foldline._config import RunnableConfig
else:
    _config = late("foldline._config")

T = TypeVar("T")
Fields = Mapping[str, Any]
"""Field name -> (type, default), as `create_model` takes them."""


class Types:
    """Methods of `Runnable` that say what it takes and gives."""

    @property
    def InputType(self) -> Any:
        """The type of the input."""
        return _plain(_io_types_of(self)[0])

    @property
    def OutputType(self) -> Any:
        """The type of the output."""
        return _plain(_io_types_of(self)[1])

    @property
    def input_schema(self) -> type[BaseModel]:
        """The input as a Pydantic model."""
        return self.get_input_schema()

    @property
    def output_schema(self) -> type[BaseModel]:
        """The output as a Pydantic model."""
        return self.get_output_schema()

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Give the input as a Pydantic model."""
        return value_model(self.get_name("Input"), self.InputType)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Give the output as a Pydantic model."""
        return value_model(self.get_name("Output"), self.OutputType)

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Give the JSON schema of the input."""
        return self.get_input_schema(config).model_json_schema()

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Give the JSON schema of the output."""
        return self.get_output_schema(config).model_json_schema()

    def _schema_before(
        self, following: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        """What a sequence takes that begins with this runnable; `following` is what its rest takes."""
        return self.get_input_schema(config)

    def _schema_after(
        self, previous: type[BaseModel], config: RunnableConfig | None
    ) -> type[BaseModel]:
        """What a sequence gives that ends with this runnable; `previous` is what its other steps give."""
        return self.get_output_schema(config)

    @property
    def config_specs(self) -> list[Any]:
        """The configurable fields of this runnable and its parts."""
        return []

    def config_schema(self, *, include: Sequence[str] | None = None) -> type[BaseModel]:
        """Give the config this runnable accepts as a Pydantic model: what is configurable, and the keys named."""
        fields: dict[str, Any] = {}
        if specs := self.config_specs:
            fields["configurable"] = (
                object_model("Configurable", {s.id: _configurable(s) for s in specs}),
                None,
            )
        hints = get_type_hints(_config.RunnableConfig) if include else {}
        fields |= {
            key: (hints[key], None)
            for key in hints
            if key in (include or ()) and key != "configurable"
        }
        return object_model(self.get_name("Config"), fields)

    def get_config_jsonschema(self, *, include: Sequence[str] | None = None) -> dict[str, Any]:
        """Give the JSON schema of the config this runnable accepts."""
        return self.config_schema(include=include).model_json_schema()

    def get_prompts(self, config: RunnableConfig | None = None) -> list[Any]:
        """Give the prompts among the parts of this runnable."""
        nodes = cast("Any", self).get_graph(config).nodes.values()
        return [node.data for node in nodes if getattr(node.data, "_run_type", None) == "prompt"]

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Give the name shown in traces and schemas."""
        if name is None:
            name = getattr(self, "name", None) or type(self).__name__.split("[")[0]
        if not suffix:
            return name
        if name[0].isupper():
            return name + suffix.title()
        return f"{name}_{suffix.lower()}"


# -- generic arguments


def _io_types_of(runnable: object) -> tuple[Any, Any]:
    cls: Any = type(runnable)
    return io_types(cls)


@cache
def io_types(cls: Any) -> tuple[Any, Any]:
    """Give the two arguments of `Runnable[...]` in the ancestry of a class, type variables filled in."""
    found = _runnable_arguments(cls, ())
    return (found[0], found[1]) if found else (Any, Any)


def _runnable_arguments(cls: type[Any], given: tuple[Any, ...]) -> tuple[Any, ...] | None:
    if cls.__name__ == "Runnable" and Types in cls.__bases__:
        return given if len(given) == 2 else (Any, Any)
    generic = cls.__dict__.get("__pydantic_generic_metadata__") or {}
    if generic.get("origin"):
        return _runnable_arguments(generic["origin"], generic["args"])
    parameters = generic.get("parameters") or cls.__dict__.get("__parameters__", ())
    known = dict(zip(parameters, given, strict=False))
    for base in cls.__dict__.get("__orig_bases__") or cls.__bases__:
        origin = get_origin(base) or base
        if isinstance(origin, type) and issubclass(origin, Types):
            arguments = tuple(_filled(argument, known) for argument in get_args(base))
            if found := _runnable_arguments(origin, arguments):
                return found
    return None


def _filled(argument: Any, known: dict[Any, Any]) -> Any:
    if isinstance(argument, TypeVar):
        return known.get(argument, argument)
    inside = getattr(argument, "__parameters__", ())
    if inside and any(parameter in known for parameter in inside):
        return argument[tuple(known.get(parameter, parameter) for parameter in inside)]
    return argument


def _plain(found: Any) -> Any:
    return Any if isinstance(found, TypeVar) else found


# -- models


def value_model(name: str, kind: Any) -> type[BaseModel]:
    """Give a model of one value: the type itself where it is a model, else a root model named `name`."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    try:
        return _root_model(name, kind)
    except TypeError:  # an annotation that cannot be hashed
        return _root_model.__wrapped__(name, kind)


@cache
def _loose_root() -> Any:
    # Made when asked for: importing `RootModel` alone makes Pydantic build a schema, for which it looks through all
    # installed packages for its plugins.
    from pydantic import RootModel  # noqa: PLC0415

    class LooseRoot(RootModel[T], Generic[T]):
        model_config = ConfigDict(arbitrary_types_allowed=True)

    return LooseRoot


@lru_cache(maxsize=256)
def _root_model(name: str, kind: Any) -> type[BaseModel]:
    return cast("type[BaseModel]", create_model(name, __base__=_loose_root()[kind]))


def object_model(name: str, fields: Fields) -> type[BaseModel]:
    """Make a model of several fields."""
    return cast("type[BaseModel]", create_model(name, __base__=_Named, **_safe(fields)))


class _Named(BaseModel):
    """No docstring of ours may end up in a user's schema."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True, protected_namespaces=(), defer_build=True
    )


_Named.__doc__ = None


def _safe(fields: Fields) -> dict[str, Any]:
    """Rename what Pydantic refuses as a field (`_x`, `model_dump`), and keep the key as its alias."""
    safe: dict[str, Any] = {}
    for key, (kind, default) in fields.items():
        if key.isidentifier() and not key.startswith("_") and not hasattr(BaseModel, key):
            safe[key] = (kind, default)
        else:
            given = {} if default is ... else {"default": default}
            safe[f"key_{len(safe)}"] = (kind, Field(alias=key, title=key, **given))
    return safe


def is_object(model: type[BaseModel]) -> bool:
    """Whether a model has named fields."""
    return not model.__pydantic_root_model__


def is_anything(model: type[BaseModel]) -> bool:
    """Whether a model accepts every value."""
    return not is_object(model) and _plain(model.model_fields["root"].annotation) is Any


def fields_of(model: type[BaseModel]) -> dict[str, Any]:
    """Give the fields of a model as `object_model` takes them."""
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        default = ... if field.is_required() else field.get_default(call_default_factory=True)
        fields[field.alias or name] = (field.annotation, default)
    return fields


def _configurable(spec: Any) -> Any:
    return spec.annotation, Field(spec.default, title=spec.name, description=spec.description)


def unique_specs(groups: Iterable[Iterable[Any]]) -> list[Any]:
    """Join configurable fields, each id once."""
    from foldline.runnables.utils import get_unique_config_specs  # noqa: PLC0415

    return get_unique_config_specs(spec for group in groups for spec in group)


def indented(text: str) -> str:
    """Indent all lines but the first by two, for nested `repr`s."""
    return text.replace("\n", "\n  ")
