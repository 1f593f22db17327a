"""The shapes in which a `Serializable` says how to build it again; public as `foldline.load.serializable`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

__all__ = [
    "BaseSerialized",
    "SerializedConstructor",
    "SerializedNotImplemented",
    "SerializedSecret",
]


class BaseSerialized(TypedDict):
    """What the three shapes below share."""

    lc: int
    id: list[str]
    name: NotRequired[str]
    graph: NotRequired[dict[str, Any]]


class SerializedConstructor(BaseSerialized):
    """An object that can be built again from `kwargs`."""

    type: Literal["constructor"]
    kwargs: dict[str, Any]


class SerializedSecret(BaseSerialized):
    """The place of a secret: its name, never its value."""

    type: Literal["secret"]


class SerializedNotImplemented(BaseSerialized):
    """An object that cannot be built again; `repr` is for people."""

    type: Literal["not_implemented"]
    repr: NotRequired[str | None]
