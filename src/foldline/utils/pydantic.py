"""Pydantic under LangChain's names. foldline knows pydantic 2 only."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable
from typing import Any, TypeGuard, cast

import pydantic
from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.fields import FieldInfo

from foldline.exceptions import MissingExtraError

__all__ = [
    "PydanticBaseModel",
    "create_model",
    "create_model_v2",
    "get_fields",
    "get_pydantic_major_version",
    "is_basemodel_instance",
    "is_basemodel_subclass",
    "is_pydantic_v1_subclass",
    "is_pydantic_v2_subclass",
    "model_json_schema",
    "model_validate",
    "pre_init",
]

PYDANTIC_MAJOR_VERSION = int(pydantic.VERSION.partition(".")[0])
PydanticBaseModel = BaseModel
TypeBaseModel = type[BaseModel]


def __getattr__(name: str) -> object:
    if name != "PYDANTIC_VERSION":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from packaging.version import Version  # noqa: PLC0415  not a dependency: programs that compare versions have it
    except ImportError as error:
        raise MissingExtraError(
            "PYDANTIC_VERSION is a version to compare with: `pip install packaging`"
        ) from error
    return Version(pydantic.VERSION)


def get_pydantic_major_version() -> int:
    """Return the major version of pydantic: 2."""
    return PYDANTIC_MAJOR_VERSION


def is_basemodel_subclass(cls: type) -> TypeGuard[type[BaseModel]]:
    """Whether this is a model class (and a class at all, not `list[int]`)."""
    return inspect.isclass(cls) and not hasattr(cls, "__origin__") and issubclass(cls, BaseModel)


is_pydantic_v2_subclass = is_basemodel_subclass


def is_pydantic_v1_subclass(cls: type) -> bool:
    """Whether this is a model class of `pydantic.v1`, which is accepted only as a schema of answers and tools."""
    names = (base.__module__ for base in getattr(cls, "__mro__", ()))
    return any(name.startswith("pydantic.v1") for name in names)


def v1_schema(model: Any) -> dict[str, Any]:  # noqa: ANN401  a class of `pydantic.v1`, which need not be there
    """Return the JSON Schema of a model of `pydantic.v1`, with its definitions where pydantic 2 has them."""
    schema = json.loads(json.dumps(model.schema()).replace("#/definitions/", "#/$defs/"))
    if "definitions" in schema:
        schema["$defs"] = schema.pop("definitions")
    return cast("dict[str, Any]", schema)


def is_basemodel_instance(obj: object) -> bool:
    """Whether this is a model."""
    return isinstance(obj, BaseModel)


def get_fields(model: type[BaseModel] | BaseModel) -> dict[str, FieldInfo]:
    """Return the fields of a model or model class."""
    kind = model if isinstance(model, type) else type(model)
    return dict(kind.model_fields)


def model_json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model class."""
    return model.model_json_schema()


def model_validate(model: type[BaseModel], obj: object) -> BaseModel:
    """Validate a value as a model."""
    return model.model_validate(obj)


def create_model(
    model_name: str, module_name: str | None = None, /, **field_definitions: object
) -> type[BaseModel]:
    """Make a model class; the field `__root__` makes it a root model."""
    root = field_definitions.pop("__root__", None)
    return create_model_v2(
        model_name, module_name=module_name, field_definitions=field_definitions, root=root
    )


def create_model_v2(
    model_name: str,
    *,
    module_name: str | None = None,
    field_definitions: dict[str, Any] | None = None,
    root: object = None,
) -> type[BaseModel]:
    """Make a model class whose fields may have names that pydantic's methods have."""
    module = module_name or __name__
    if root is not None:
        if field_definitions:
            raise ValueError("a root model has no fields: pass `root` or `field_definitions`")
        from pydantic import RootModel  # noqa: PLC0415  it builds a schema when it is imported

        kind, default = root if isinstance(root, tuple) else (root, ...)
        base: Any = RootModel.__class_getitem__(kind)
        model: Any = pydantic.create_model(
            model_name, __base__=base, __module__=module, root=(kind, default)
        )
        return cast("type[BaseModel]", model)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*shadows an attribute.*")
        return pydantic.create_model(
            model_name,
            __config__=ConfigDict(arbitrary_types_allowed=True, protected_namespaces=()),
            __module__=module,
            **(field_definitions or {}),
        )


def pre_init(func: Callable[[Any, dict[str, Any]], Any]) -> Any:  # noqa: ANN401  a pydantic decorator's proxy
    """Run before validation, with the defaults already filled in."""

    def with_defaults(cls: type[BaseModel], values: dict[str, Any]) -> object:
        filled = dict(values)
        for name, field in cls.model_fields.items():
            is_set = name in filled or (field.alias is not None and field.alias in filled)
            if not is_set and not field.is_required():
                filled[name] = field.get_default(call_default_factory=True, validated_data=filled)
        return func(cls, filled)

    return model_validator(mode="before")(classmethod(with_defaults))  # type: ignore[arg-type]
