"""Fields of a Pydantic model that are filled in when somebody looks.

A chunk of a stream is made and added far more often than it is read. `LazyFields` lets its `__dict__` hold only what
was said: a missing field is worked out at the first look (`_lazy_value`) and then stays. Everything that wants the
whole (`model_dump`, `==`, `repr`, `copy`, `pickle`, iteration) goes through `__dict__`, which here is a property that
completes the fields first. This file knows Pydantic's slots and nothing of messages.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from pydantic import BaseModel, ConfigDict

from foldline.utils.signature import SIGNATURE, ClassSignature, keep_signature

__all__ = ["LazyFields", "default_of", "real_extra", "real_fields", "set_real_fields"]

Fields = dict[str, Any]

# The descriptor behind `instance.__dict__`, reached past the property below.
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
    """A model whose missing fields are worked out when they are read."""

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)
    __signature__: ClassVar[ClassSignature] = SIGNATURE

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        keep_signature(cls)

    if TYPE_CHECKING:

        def __init__(self, *args: object, **kwargs: object) -> None: ...

    def _lazy_value(self, name: str) -> object:
        """Work out a field that was not said."""
        return default_of(type(self), name)

    def _lazy_values(self) -> Fields:
        """Work out all fields at once, in the order of the model; those that were said may stay defaults."""
        return {name: make() for name, make in _factories(type(self)).items()}

    def _lazy_fields_set(self) -> set[str]:
        return set(real_fields(self))

    def _lazy_extra(self) -> Fields | None:
        return {}

    def _fill_slots(self) -> None:
        """Give Pydantic the bookkeeping that a quick constructor left out."""
        for name in PYDANTIC_SLOTS:
            getattr(self, name)

    def __getattr__(self, name: str) -> object:
        """Work out what is missing."""
        if name in PYDANTIC_SLOTS:
            return self._fill_slot(name)
        if name in type(self).__pydantic_fields__:
            self.__pydantic_fields_set__  # noqa: B018  before looking counts as saying
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
        """Work out every field that is missing."""
        fields = real_fields(self)
        names = type(self).__pydantic_fields__
        if len(fields) < len(names):
            self._fill_slots()
            whole = self._lazy_values()
            whole.update(fields)
            fields.clear()
            fields.update(whole)

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
    """Return a maker of the default of each field; asking Pydantic each time costs 20 µs a field."""
    return {
        name: cast("Callable[[], Any]", field.default_factory)
        if field.default_factory is not None
        else _constant(field.get_default())
        for name, field in cls.model_fields.items()
    }


def _constant(value: object) -> Callable[[], Any]:
    is_fixed = value is None or isinstance(value, str | int | float | tuple | frozenset)
    return (lambda: value) if is_fixed else (lambda: copy(value))


def default_of(cls: type[BaseModel], name: str) -> object:
    """Return the default of a field, a new one where it could be changed in place."""
    return _factories(cls)[name]()
