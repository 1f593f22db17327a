"""The signature of a Pydantic class, shown before the class is built: its fields and their defaults.

Most of foldline's classes are built when they are first used (`defer_build`), and until then Python shows `**data`.
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
    """`__signature__` of a class, worked out when it is asked for; an instance has none."""

    def __get__(self, instance: object, owner: type[BaseModel]) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        return class_signature(owner)


SIGNATURE = ClassSignature()
"""Stands in the body of a class: `__signature__: ClassVar[ClassSignature] = SIGNATURE`."""


def keep_signature(cls: type[BaseModel]) -> None:
    """Keep ours when a class is built (`__pydantic_on_complete__`): Pydantic's would be shown for subclasses too."""
    type.__setattr__(cls, "__signature__", SIGNATURE)


class _FromFactory:
    def __repr__(self) -> str:
        return "<factory>"


FROM_FACTORY = _FromFactory()


def class_signature(cls: type[BaseModel]) -> inspect.Signature:
    """Return what the constructor takes: its own parameters, then each field by name, then anything where it may be."""
    own = list(inspect.signature(cls.__init__).parameters.values())[1:]
    named = [one for one in own if one.kind is not one.VAR_KEYWORD]
    if len(named) == len(own):  # it says all that it takes
        return inspect.Signature(named)
    known = {parameter.name for parameter in named}
    shown = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, **_described(field))
        for name, field in _arguments(cls)
        if name not in known
        and not (named and field.is_required())  # the constructor finds those itself
    ]
    if cls.model_config.get("extra") == "allow":
        shown.append(inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature([*named, *shown])


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
