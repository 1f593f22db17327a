"""`Serializable`: a Pydantic model that can describe how to rebuild it, and the forms of that description.

The rule of this file: describing an object opens nothing, reads nothing outside it, and never shows a secret. A model
that is only built and read pays nothing for it; the work is in `to_json`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

from foldline._lazy import describe_fields, lazy_exports
from foldline.utils._class_doc import plain_description
from foldline.utils._short_repr import readable
from foldline.utils._signature import SIGNATURE, ClassSignature, keep_signature

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

__all__ = [
    "BaseSerialized",
    "Serializable",
    "SerializedConstructor",
    "SerializedNotImplemented",
    "SerializedSecret",
    "to_json_not_implemented",
    "try_neq_default",
]

FORMAT_VERSION = 1


class Serializable(BaseModel):
    """A value that `foldline.load.dumps` can write and `foldline.load.loads` can read back.

    A subclass opts in by `is_lc_serializable`, and is made loadable by `foldline.load.register_loadable`.

    ```python
    from foldline.load import Serializable, dumpd


    class Stitch(Serializable):
        x: int
        y: int = 0

        @classmethod
        def is_lc_serializable(cls) -> bool:
            return True

        @classmethod
        def get_lc_namespace(cls) -> list[str]:
            return ["loom"]


    print(dumpd(Stitch(x=1)))
    #> {'lc': 1, 'type': 'constructor', 'id': ['loom', 'Stitch'], 'kwargs': {'x': 1}}
    ```
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", defer_build=True)
    __signature__: ClassVar[ClassSignature] = SIGNATURE

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        keep_signature(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        describe_fields(cls)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        return plain_description(cls, core_schema, handler)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return whether objects of this class may be written as constructors (by default not)."""
        return False

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        """Return the public path of the class: `foldline.messages`, not the file `foldline.messages.human`."""
        return _public_path(cls)

    @classmethod
    def lc_id(cls) -> list[str]:
        """Return the id of this class in the registry."""
        return [*cls.get_lc_namespace(), _plain_name(cls)]

    @property
    def lc_secrets(self) -> dict[str, str]:
        """The names of secrets by constructor argument."""
        return {}

    @property
    def lc_attributes(self) -> dict[str, Any]:
        """Attributes to write in addition to the fields; the constructor must accept them."""
        return {}

    def to_json(self) -> SerializedConstructor | SerializedNotImplemented:
        """Return the description of this object: its id and the arguments that differ from the defaults."""
        if not self.is_lc_serializable():
            return self.to_json_not_implemented()
        kwargs = useful_fields(self)
        kwargs.update(self.lc_attributes)
        _hide_secrets(kwargs, self.lc_secrets, type(self).model_fields)
        return {
            "lc": FORMAT_VERSION,
            "type": "constructor",
            "id": self.lc_id(),
            "kwargs": kwargs,
        }

    def to_json_not_implemented(self) -> SerializedNotImplemented:
        """Return the description of this object as one that cannot be rebuilt."""
        return to_json_not_implemented(self)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the fields for `repr`, without those that have their default."""
        for name, value in super().__repr_args__():
            if name is None or try_neq_default(value, name, self):
                yield name, readable(value)


def to_json_not_implemented(obj: object) -> SerializedNotImplemented:
    """Return the description of any object as one that cannot be rebuilt.

    The text is the class name alone, because an arbitrary `repr` may show a secret.
    """
    source = obj if isinstance(obj, type) or hasattr(obj, "__qualname__") else type(obj)
    name = str(getattr(source, "__name__", type(obj).__name__))
    module = str(getattr(source, "__module__", None) or type(obj).__module__)
    return {
        "lc": FORMAT_VERSION,
        "type": "not_implemented",
        "id": [*module.split("."), name],
        "repr": f"<{module}.{name}>",
    }


class SecretReference(dict[str, Any]):
    """A `SerializedSecret` made by us.

    Its type distinguishes it from user data of the same shape, which must stay data (CVE-2025-68664).
    """


def secret_reference(name: str) -> SecretReference:
    """Return the reference to the secret `name` in a dump."""
    return SecretReference(lc=FORMAT_VERSION, type="secret", id=[name])


def try_neq_default(value: object, key: str, model: BaseModel) -> bool:
    """Return whether a field of `model` differs from its plain default."""
    field = type(model).model_fields.get(key)
    return field is None or not _equals_default(value, field.default)


def class_id(cls: type[BaseModel]) -> list[str]:
    """Return the id of any Pydantic class; `Serializable` classes define it themselves."""
    if issubclass(cls, Serializable):
        return cls.lc_id()
    return [*_public_path(cls), _plain_name(cls)]


def useful_fields(model: BaseModel) -> dict[str, Any]:
    """Return the constructor arguments of `model` that differ from their defaults, extras included."""
    arguments = {}
    for name, argument, field in _serialized_fields(type(model)):
        value = getattr(model, name)
        # `type` is for readers of the JSON that do not know the id.
        if name == "type" or (value is not field.default and not _is_default(field, value)):
            arguments[argument] = value
    arguments.update(model.__pydantic_extra__ or {})
    return arguments


@cache
def _serialized_fields(cls: type[BaseModel]) -> list[tuple[str, str, FieldInfo]]:
    """Return the fields of a class that are written, each with its argument name in the constructor."""
    by_name = cls.model_config.get("populate_by_name") or cls.model_config.get("validate_by_name")
    return [
        (name, name if by_name else argument_name(name, field), field)
        for name, field in cls.model_fields.items()
        if not field.exclude
    ]


def argument_name(name: str, field: FieldInfo) -> str:
    """Return the argument name of a field in the constructor."""
    alias = field.validation_alias or field.alias
    return alias if isinstance(alias, str) else name


def _public_path(cls: type[BaseModel]) -> list[str]:
    parts = cls.__module__.split(".")
    return parts[:-1] if parts[0] == "foldline" and len(parts) > 2 else parts


def _plain_name(cls: type[BaseModel]) -> str:
    # A parametrised generic (`Foo[int]`) is written under the name of its origin.
    origin: type[BaseModel] = cls.__pydantic_generic_metadata__["origin"] or cls
    return origin.__name__


def _is_default(field: FieldInfo, value: object) -> bool:
    if field.is_required():
        return False
    if field.default_factory is None:
        return _equals_default(value, field.default)
    # Only empty containers: calling any other factory (a clock, a uuid, a client) would prove nothing.
    return field.default_factory in (list, dict, set, tuple) and (
        type(value) is field.default_factory and not value
    )


def _equals_default(value: object, default: object) -> bool:
    if value is default:
        return True
    if type(value) is not type(default):
        return False  # True is not 1 here
    if isinstance(value, (str, int, bytes, enum.Enum)):
        return value == default
    if isinstance(value, float):
        return repr(value) == repr(default)  # 0.0 is not -0.0
    return isinstance(value, (list, dict, tuple, set)) and not value and not default


def _hide_secrets(
    kwargs: dict[str, Any], secrets: dict[str, str], fields: dict[str, FieldInfo]
) -> None:
    names = dict(secrets)
    for name, secret in secrets.items():
        if name in fields:  # the field may be written under its alias
            names[argument_name(name, fields[name])] = secret
    for argument, value in kwargs.items():
        if argument in names:
            if value is not None:
                kwargs[argument] = secret_reference(names[argument])
        elif isinstance(value, (SecretStr, SecretBytes)):
            kwargs[argument] = secret_reference(argument.upper())


with lazy_exports(__name__):
    from foldline.load._shapes import (
        BaseSerialized as BaseSerialized,
        SerializedConstructor as SerializedConstructor,
        SerializedNotImplemented as SerializedNotImplemented,
        SerializedSecret as SerializedSecret,
    )
