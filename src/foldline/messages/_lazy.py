"""Fields of a Pydantic model that are computed on first access.

A chunk of a stream is created and added far more often than it is read. With `LazyFields` its real `__dict__` contains
only the fields that were set: a missing field is computed at first access (`_lazy_value`) and stored. Operations on all
fields (`model_dump`, `==`, `repr`, `copy`, `pickle`, iteration) use `__dict__`, which is a property here that computes
all missing fields first. This file depends on Pydantic's slots and not on messages.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from pydantic import BaseModel, ConfigDict

from foldline._lazy import describe_fields
from foldline.utils._class_doc import plain_description
from foldline.utils._signature import SIGNATURE, ClassSignature, keep_signature

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

__all__ = ["LazyFields", "default_of", "real_extra", "real_fields", "set_real_fields"]

Fields = dict[str, Any]

# The descriptor of the real `instance.__dict__`, which the property below hides.
_dict_slot: Final[Any] = BaseModel.__dict__["__dict__"]
real_fields: Final[Callable[[BaseModel], Fields]] = _dict_slot.__get__
set_real_fields: Final[Callable[[BaseModel, Fields], None]] = _dict_slot.__set__
real_extra: Final[Callable[[BaseModel], Fields | None]] = BaseModel.__dict__[
    "__pydantic_extra__"
].__get__

PYDANTIC_SLOTS: Final = frozenset(
    {"__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"}
)


class LazyFields(BaseModel):
    """A model whose missing fields are computed when they are read."""

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)
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

    if TYPE_CHECKING:

        def __init__(self, *args: object, **kwargs: object) -> None: ...

    def _lazy_value(self, name: str) -> object:
        """Return the value of a field that was not set."""
        return default_of(type(self), name)

    def _lazy_values(self) -> Fields:
        """Return the values of all fields, in the model's order; those that were set may be defaults here."""
        return {name: make() for name, make in _factories(type(self)).items()}

    def _lazy_fields_set(self) -> set[str]:
        return set(real_fields(self))

    def _lazy_extra(self) -> Fields | None:
        return {}

    def _fill_slots(self) -> None:
        """Set Pydantic's slots, which the fast constructors leave out."""
        for name in PYDANTIC_SLOTS:
            getattr(self, name)

    def __getattr__(self, name: str) -> object:
        """Compute a missing field or slot."""
        if name in PYDANTIC_SLOTS:
            return self._fill_slot(name)
        if name in type(self).__pydantic_fields__:
            self.__pydantic_fields_set__  # noqa: B018  computed now: a field that is only read must not count as set
            value = real_fields(self)[name] = self._lazy_value(name)
            return value
        return super().__getattr__(name)  # type: ignore[misc]

    def _fill_slot(self, name: str) -> object:
        if name == "__pydantic_fields_set__":
            value: Any = self._lazy_fields_set()
        else:
            value = self._lazy_extra() if name == "__pydantic_extra__" else None
        object.__setattr__(self, name, value)
        return value

    def _fill_fields(self) -> None:
        """Compute every missing field."""
        fields = real_fields(self)
        names = type(self).__pydantic_fields__
        if len(fields) < len(names):
            self._fill_slots()
            values = self._lazy_values()
            values.update(fields)
            fields.clear()
            fields.update(values)

    @property
    def __dict__(self) -> Fields:
        """All fields, in the order of the model."""
        self._fill_fields()
        return real_fields(self)

    @__dict__.setter
    def __dict__(self, fields: Fields) -> None:
        set_real_fields(self, fields)


@cache
def _factories(cls: type[BaseModel]) -> dict[str, Callable[[], Any]]:
    """Return a factory of each field's default; asking Pydantic each time takes 20 µs per field."""
    return {
        name: cast("Callable[[], Any]", field.default_factory)
        if field.default_factory is not None
        else _constant(field.get_default())
        for name, field in cls.model_fields.items()
    }


def _constant(value: object) -> Callable[[], Any]:
    is_immutable = value is None or isinstance(value, str | int | float | tuple | frozenset)
    return (lambda: value) if is_immutable else (lambda: copy(value))


def default_of(cls: type[BaseModel], name: str) -> object:
    """Return the default of a field; a new object if it is mutable."""
    return _factories(cls)[name]()
