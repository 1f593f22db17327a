"""The signature of a Pydantic class, shown before the class is built: its fields and their defaults.

Most of foldline's classes are built at their first use (`defer_build`), and until then Python shows `**data`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import PydanticUndefined

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

__all__ = ["SIGNATURE", "ClassSignature", "class_signature", "keep_signature", "show_defaults"]

T = TypeVar("T", bound=Callable[..., Any])


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


class NamedDefault:
    """A function as a default, shown by its name; a call of it calls the function."""

    __slots__ = ("_function",)

    def __init__(self, function: FunctionType) -> None:
        self._function = function

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return self._function.__name__


class NamedType:
    """An annotation, shown as in the source."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def show_defaults(target: T) -> T:
    """Decorate a function or a plain class: its signature shows functions that are defaults by their names.

    ```python
    import inspect
    from foldline.utils._signature import show_defaults


    def count_words(text: str) -> int:
        return len(text.split())


    @show_defaults
    def measure(text, count=count_words):
        return count(text)


    print(inspect.signature(measure))
    #> (text, count=count_words)
    ```
    """
    function: Any = target.__init__ if isinstance(target, type) else target  # type: ignore[misc] # of this very class
    signature = inspect.signature(function)
    parameters = [
        item.replace(default=_readable_default(item.default))
        for item in signature.parameters.values()
    ]
    function.__signature__ = signature.replace(parameters=parameters)
    return target


def _readable_default(value: object) -> object:
    return NamedDefault(value) if isinstance(value, FunctionType) else value


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
    # A constructor fills in the required fields that it knows.
    later = _fields_after_constructor(cls)
    fields = [
        inspect.Parameter(argument, inspect.Parameter.KEYWORD_ONLY, **_described(cls, name, field))
        for name, field in cls.model_fields.items()
        if (argument := _argument(name, field)) not in names
        and not (explicit and field.is_required() and argument not in later)
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


def _argument(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias or field.alias
    is_plain = name.isidentifier() and not name.startswith("_")
    return alias if isinstance(alias, str) and not is_plain else name


def _described(cls: type[BaseModel], name: str, field: FieldInfo) -> dict[str, Any]:
    described: dict[str, Any] = {"annotation": field.annotation}
    if " at 0x" in repr(field.annotation):  # of a function in `Annotated`
        described["annotation"] = _source_annotation(cls, name) or field.annotation
    if field.default_factory is not None:
        described["default"] = FROM_FACTORY
    elif field.default is not PydanticUndefined:
        described["default"] = _readable_default(field.default)
    return described


def _source_annotation(cls: type[BaseModel], name: str) -> NamedType | None:
    for base in cls.__mro__:
        text = inspect.get_annotations(base).get(name)
        if isinstance(text, str):
            return NamedType(text)
    return None
