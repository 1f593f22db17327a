"""The signature of a Pydantic class, shown before the class is built: its fields and their defaults.

Most of foldline's classes are built at their first use (`defer_build`), and until then Python shows `**data`.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticUndefined

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

__all__ = ["SIGNATURE", "ClassSignature", "class_signature", "keep_signature"]


class ClassSignature:
    """`__signature__` of a class, computed at each access; an instance has none."""

    def __get__(self, instance: object, owner: type[BaseModel]) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        return class_signature(owner)


SIGNATURE = ClassSignature()
"""For the body of a class: `__signature__: ClassVar[ClassSignature] = SIGNATURE`."""


def keep_signature(cls: type[BaseModel]) -> None:
    """Restore ours when a class is built (`__pydantic_on_complete__`): Pydantic's would be shown for subclasses too."""
    type.__setattr__(cls, "__signature__", SIGNATURE)


class _FromFactory:
    def __repr__(self) -> str:
        return "<factory>"


FROM_FACTORY = _FromFactory()


def class_signature(cls: type[BaseModel]) -> inspect.Signature:
    """Return the constructor's own parameters, then each field by name, then `**kwargs` where it takes them."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    explicit = [item for item in parameters if item.kind is not item.VAR_KEYWORD]
    if len(explicit) == len(parameters):  # the constructor takes nothing else
        return inspect.Signature(explicit)
    names = {parameter.name for parameter in explicit}
    later = _fields_after_constructor(
        cls
    )  # a constructor fills in the required fields that it knows
    fields = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, **_described(field))
        for name, field in _arguments(cls)
        if name not in names and not (explicit and field.is_required() and name not in later)
    ]
    if cls.model_config.get("extra") == "allow":
        fields.append(inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature([*explicit, *fields])


def _fields_after_constructor(cls: type[BaseModel]) -> set[str]:
    """Return the fields that subclasses of the class with the constructor declare."""
    names: set[str] = set()
    for base in cls.__mro__:
        if "__init__" in base.__dict__:
            break
        names.update(inspect.get_annotations(base))
    return names


def _arguments(cls: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    return [(_argument(name, field), field) for name, field in cls.model_fields.items()]


def _argument(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias or field.alias
    is_plain = name.isidentifier() and not name.startswith("_")
    return alias if isinstance(alias, str) and not is_plain else name


def _described(field: FieldInfo) -> dict[str, Any]:
    described: dict[str, Any] = {"annotation": field.annotation}
    if field.default_factory is not None:
        described["default"] = FROM_FACTORY
    elif field.default is not PydanticUndefined:
        described["default"] = field.default
    return described
