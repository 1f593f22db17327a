"""Encodes values for a journal and decodes them. No I/O; stored data is untrusted input and cannot name code.

Most values are plain JSON. A closed set of other types has a tag: tuples, sets, bytes, dates, messages and documents
(with `foldline.load`). A Pydantic model, a dataclass or an enum is written as plain data and rebuilt by the declared
type: the annotation of a state's key, or of a step's result. Without a declared type it is rejected when it is written.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from foldline.exceptions import SchemaError
from foldline.load._packed import Packer, Reader
from foldline.utils._surrogates import has_surrogates

__all__ = [
    "Any",
    "pack",
    "unpack",
]

NUMBER_KEY = "__foldline_number__"
"""The key of a number that JSON does not have."""
NO_NUMBER = "value"
"""The key under it of what a caller has given with that key."""
SPECIAL_NUMBERS = {repr(value): value for value in (math.nan, math.inf, -math.inf)}
ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def pack(value: object, where: str, declared: object = Any) -> object:
    """Return a value as JSON; raise `SchemaError` if decoding it would not give an equal value."""
    packer = Packer(where)
    packed = packer.pack(value)
    if packer.needs_type is not None:
        name = packer.needs_type.__name__
        if adapter_of(declared) is None:
            raise SchemaError(
                f"{where} holds a {name}, and no annotation declares that type: annotate the key of the state, or the "
                "step's result, so that it can be read back"
            )
        if unpack(packed, where, declared) != value:
            raise SchemaError(
                f"{where} holds a {name} that its declared type {declared!r:.80} would not restore: declare its "
                "exact type, or allow the class of a message with foldline.load.register_loadable"
            )
    return packed


def unpack(packed: object, where: str, declared: object = Any) -> Any:  # noqa: ANN401  a value of the declared type
    """Return the value of its JSON form; raise `SchemaError` if it does not match the declared type."""
    reader = Reader()
    try:
        value = reader.unpack(packed)
        if reader.saw_model:
            adapter = adapter_of(declared)
            if adapter is None:
                raise SchemaError(f"{where} holds an object whose type is no longer declared")
            return adapter.validate_python(value)
    except SchemaError:
        raise
    except ValidationError as error:
        first = error.errors()[0]
        raise SchemaError(
            f"{where} does not fit its type {declared!r:.80}: {first['msg']}"
        ) from error
    except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise SchemaError(f"{where} is damaged: {error}") from error
    return value


def unpack_plain(packed: object, where: str) -> object:
    """Return the value of its JSON form, with models and dataclasses as plain data, for display."""
    try:
        return Reader().unpack(packed)
    except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise SchemaError(f"{where} is damaged: {error}") from error


def adapter_of(declared: object) -> TypeAdapter[Any] | None:
    """Return the adapter that validates and builds values of a declared type; None for `Any` and the like."""
    try:
        return _adapter(declared)
    except TypeError:  # an annotation that cannot be hashed
        return _build(declared)


def _build(declared: Any) -> TypeAdapter[Any] | None:  # noqa: ANN401  annotations are any object
    if declared is Any or declared is None or declared is object or isinstance(declared, TypeVar):
        return None
    try:
        return TypeAdapter(declared, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            return None
    except (PydanticSchemaGenerationError, NameError, TypeError):
        return None
    try:
        return TypeAdapter(declared)
    except (PydanticUserError, PydanticSchemaGenerationError, NameError, TypeError):
        return None


_adapter = lru_cache(maxsize=1024)(_build)


def to_text(body: object) -> str:
    """Return JSON text that any store can hold, and any program can read.

    A lone surrogate is escaped, and a number that JSON does not have (NaN and the infinities) gets a tag; both are
    restored when the text is read.
    """
    try:
        text = ENCODE(body)
        has_tags = NUMBER_KEY in text  # a value of a caller that looks like a tag
    except ValueError:
        has_tags = True
    if has_tags:
        body = _tag_numbers(body)
        text = ENCODE(body)
    return json.dumps(body) if has_surrogates(text) else text


def _tag_numbers(value: object) -> object:
    if isinstance(value, dict):
        tagged = {key: _tag_numbers(item) for key, item in value.items()}
        return (
            {NUMBER_KEY: {NO_NUMBER: tagged[NUMBER_KEY]}}
            if value.keys() == {NUMBER_KEY}
            else tagged
        )
    if isinstance(value, list | tuple):
        return [_tag_numbers(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {NUMBER_KEY: repr(value)}
    return value


def _read_number(value: dict[str, Any]) -> object:
    if value.keys() != {NUMBER_KEY}:
        return value
    tagged = value[NUMBER_KEY]
    if isinstance(tagged, dict) and tagged.keys() == {NO_NUMBER}:
        return {NUMBER_KEY: tagged[NO_NUMBER]}
    return SPECIAL_NUMBERS.get(str(tagged), value)


def from_text(text: str, where: str) -> dict[str, Any]:
    """Parse the JSON of an entry."""
    try:
        body = json.loads(text, object_hook=_read_number if NUMBER_KEY in text else None)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{where} is damaged and was not read: {error}") from error
    if not isinstance(body, dict) or "v" not in body or "kind" not in body:
        raise SchemaError(f"{where} was not written by foldline: it has no version")
    return body
