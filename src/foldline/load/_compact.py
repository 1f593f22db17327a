"""Messages as `[type, content, {other fields}]`, the form in which threads are stored: short, and cheap to read.

Messages of the four usual classes with plain JSON in their fields have this form; any other is written by
`foldline.load.dump`. Stored data is untrusted: what is not checked here field by field is built, and so checked, by the
constructor of the class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from foldline.exceptions import SchemaError
from foldline.load.registry import resolve
from foldline.protocol.events import FINISH_REASONS
from foldline.protocol.merge import copy_json
from foldline.utils._surrogates import has_surrogates, mend_surrogates
from foldline.utils._trusted import build_trusted

__all__ = ["compact_message", "copy_fields", "copy_message", "read_message"]

CLASSES: Final = {
    "human": "foldline.messages.human:HumanMessage",
    "ai": "foldline.messages.ai_message:AIMessage",
    "system": "foldline.messages.system:SystemMessage",
    "tool": "foldline.messages.tool:ToolMessage",
}
TYPES: Final = {target.replace(":", "."): kind for kind, target in CLASSES.items()}

INFINITY: Final = float("inf")
PLAIN_FIELDS: Final = frozenset({"type", "name", "id", "status", "finish_reason", "tool_call_id"})
MAX_DEPTH: Final = 100
MAX_CLASSES: Final = 500
MAX_INTEGER: Final = 2**63
NO_ITEMS: Final[dict[str, Any]] = {}
NOTHING: Final[list[Any]] = []
RESERVED: Final = frozenset({"type", "content", "content_blocks"})
"""Arguments of the constructor that are not among the other fields."""


class _NotJsonError(SchemaError):
    """A value that JSON does not restore exactly."""


class _Shape(NamedTuple):
    """The fields of a class, without its type and its content."""

    kind: str
    cls: type[Any]
    defaults: dict[str, Any]
    """All fields; None for those with a factory."""
    omitted: dict[str, Any]
    """The value of each field with which it is not written."""
    factories: list[tuple[str, Callable[[], Any]]]
    checks: dict[str, Callable[[Any], bool]]
    """Fields that need no more than this to be valid."""
    required: frozenset[str]
    nested: tuple[str, ...]
    """Fields whose values may be lists or dicts."""


def _is_text(value: object) -> bool:
    return type(value) is str and not has_surrogates(value)


def _is_dict(value: object) -> bool:
    return type(value) is dict


COMMON_CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "id": _is_text,
    "name": _is_text,
    "additional_kwargs": _is_dict,
    "response_metadata": _is_dict,
}
OWN_CHECKS: Final[Mapping[str, Mapping[str, Callable[[Any], bool]]]] = {
    "ai": {
        "finish_reason": lambda value: type(value) is str and value in FINISH_REASONS,
        "status": lambda value: value == "incomplete",
    },
    "tool": {
        "tool_call_id": _is_text,
        "status": lambda value: value == "error",
        "artifact": lambda value: True,
    },
}


@cache
def _shape_of(kind: str) -> _Shape | None:
    cls: type[BaseModel] | None = resolve(CLASSES[kind]) if kind in CLASSES else None
    if cls is None:
        return None
    fields = cls.model_fields
    defaults = {
        name: None if field.default_factory or field.is_required() else field.default
        for name, field in fields.items()
    }
    factories: list[tuple[str, Callable[[], Any]]] = [
        (name, field.default_factory)  # type: ignore[misc]
        for name, field in fields.items()
        if field.default_factory
    ]
    omitted = {name: default for name, default in defaults.items() if name not in RESERVED}
    return _Shape(
        kind,
        cls,
        defaults,
        {**omitted, **{name: make() for name, make in factories}},
        factories,
        {**COMMON_CHECKS, **OWN_CHECKS.get(kind, {})},
        frozenset(name for name, field in fields.items() if field.is_required()) - {"content"},
        tuple(name for name in fields if name not in PLAIN_FIELDS),
    )


_SHAPES: Final[dict[type, _Shape | None]] = {}


def _shape_of_class(cls: type) -> _Shape | None:
    if cls in _SHAPES:
        return _SHAPES[cls]
    shape = _shape_of(TYPES.get(f"{cls.__module__}.{cls.__qualname__}", ""))
    found = shape if shape is not None and shape.cls is cls else None
    if len(_SHAPES) < MAX_CLASSES:  # a program may make classes without end
        _SHAPES[cls] = found
    return found


def compact_message(message: Any) -> list[Any] | None:  # noqa: ANN401  an object of any class
    """Return a message in its compact form, which shares nothing with it; None for another object."""
    shape = _shape_of_class(type(message))
    if shape is None:
        return None
    fields = message.__dict__
    try:
        rest = {}
        for name, default in shape.omitted.items():
            value = fields[name]
            if value is default or (type(value) is type(default) and value == default):
                continue
            if value is None:  # set to None where that is not the default
                return None
            rest[name] = _copy(value)
        extra = message.__pydantic_extra__
        if extra:
            rest.update(_copy(extra))
        return [shape.kind, _copy(fields["content"]), rest]
    except (_NotJsonError, KeyError):
        return None


def copy_fields(message: Any) -> tuple[dict[str, Any], dict[str, Any] | None] | None:  # noqa: ANN401  an object of any class
    """Return all fields of a message, to find out later whether they were changed; None if that cannot be known.

    The result is only for comparisons: all empty lists and dicts in it are the same ones.
    """
    shape = _shape_of_class(type(message))
    if shape is None:
        return None
    fields = message.__dict__.copy()
    try:
        for name in shape.nested:
            value = fields[name]
            if type(value) is dict and not value:
                fields[name] = NO_ITEMS
            elif type(value) is list and not value:
                fields[name] = NOTHING
            elif type(value) is not str and value is not None:
                fields[name] = _copy(value)
        extra = message.__pydantic_extra__
        return fields, (_copy(extra) if extra else NO_ITEMS if extra is not None else None)
    except (_NotJsonError, KeyError):
        return None


def copy_message(message: Any) -> Any:  # noqa: ANN401  an object of any class
    """Return a copy of a message that shares nothing with it; None for another object."""
    if _shape_of_class(type(message)) is None:
        return None
    try:
        fields, extra = _copy(message.__dict__), _copy(message.__pydantic_extra__)
    except _NotJsonError:
        return None
    return build_trusted(type(message), fields, set(message.__pydantic_fields_set__), extra)


def read_message(packed: Any) -> Any:  # noqa: ANN401  JSON; a message
    """Return the message of its compact form; raise `SchemaError`, `TypeError` or `ValueError` for any other."""
    kind, content, rest = packed
    shape = _shape_of(kind) if type(kind) is str else None
    if shape is None or type(rest) is not dict or not rest.keys().isdisjoint(RESERVED):
        raise SchemaError(f"a message of the type {kind!r:.40} is damaged, or of a newer version")
    if type(content) is not str or not shape.required <= rest.keys():
        return shape.cls(content=copy_json(content), **copy_json(rest))
    rest, checks = copy_json(rest), shape.checks
    for name, value in rest.items():
        check = checks.get(name)
        if check is None or not check(value):
            return shape.cls(content=content, **rest)
    fields = shape.defaults | rest
    fields["content"] = content if content.isascii() else mend_surrogates(content)
    for name, make in shape.factories:
        if name not in rest:
            fields[name] = make()
    return build_trusted(shape.cls, fields, {"content", *rest}, {})


def _copy(value: Any, depth: int = 0) -> Any:  # noqa: ANN401  JSON of any shape
    """Return a copy of JSON; raise `_NotJsonError` for a value that JSON text would not restore."""
    kind = type(value)
    if kind is str:
        return _checked(value)
    if kind is dict and depth <= MAX_DEPTH:
        return (
            {_checked(key): _copy(item, depth + 1) for key, item in value.items()} if value else {}
        )
    if kind is list and depth <= MAX_DEPTH:
        return [_copy(item, depth + 1) for item in value] if value else []
    if value is None or kind is bool:
        return value
    if (kind is int and abs(value) < MAX_INTEGER) or (kind is float and abs(value) < INFINITY):
        return value
    raise _NotJsonError


def _checked(text: object) -> str:
    if type(text) is not str or (not text.isascii() and has_surrogates(text)):
        raise _NotJsonError
    return text
