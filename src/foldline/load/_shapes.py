"""The serialised forms of a `Serializable`; public in `foldline.load.serializable`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

__all__ = [
    "BaseSerialized",
    "SerializedConstructor",
    "SerializedNotImplemented",
    "SerializedSecret",
]


class BaseSerialized(TypedDict):
    """The fields of all three forms."""

    lc: int
    id: list[str]
    name: NotRequired[str]
    graph: NotRequired[dict[str, Any]]


class SerializedConstructor(BaseSerialized):
    """An object that can be rebuilt from `kwargs`."""

    type: Literal["constructor"]
    kwargs: dict[str, Any]


class SerializedSecret(BaseSerialized):
    """A reference to a secret: its name, never its value."""

    type: Literal["secret"]


class SerializedNotImplemented(BaseSerialized):
    """An object that cannot be rebuilt; `repr` is for display."""

    type: Literal["not_implemented"]
    repr: NotRequired[str | None]
