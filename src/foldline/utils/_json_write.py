"""Writes JSON: canonical text for keys, and a conversion of any value that never fails."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, cast, overload
from uuid import UUID

from pydantic import BaseModel, SecretBytes, SecretStr

from foldline.exceptions import UsageError
from foldline.utils._json_strict import MAX_DEPTH, Json
from foldline.utils._surrogates import mend_surrogates

CYCLE = "<cycle>"
TOO_DEEP = "<too deep>"
AS_THEY_ARE = frozenset({type(None), bool, int})
SCALARS = AS_THEY_ARE | {float, str}
LEAVES: tuple[tuple[Any, Callable[[Any], Json]], ...] = (  # the order matters: an enum may be a str
    (Enum, lambda value: to_jsonable(value.value)),
    (str, lambda value: mend_surrogates(str(value))),
    (float, lambda value: float(value) if math.isfinite(value) else str(float(value))),
    (int, int),
    ((bytes, bytearray, memoryview), lambda value: base64.b64encode(bytes(value)).decode("ascii")),
    ((datetime, date, time), lambda value: value.isoformat()),
    ((timedelta, UUID, Decimal, PurePath, SecretStr, SecretBytes), str),
    (type, lambda value: f"{value.__module__}.{value.__qualname__}"),
)


def dumps_canonical(value: object) -> str:
    """Write JSON so that equal values have equal text: sorted names, no spaces, ASCII only.

    Raises for values that JSON would change: NaN, names that are not text, cycles.
    """
    _check_names(value, 0)
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"not a JSON value: {error}; pass it through to_jsonable first") from error


@overload
def to_jsonable(value: Mapping[str, Any], *, max_depth: int = ...) -> dict[str, Json]: ...


@overload
def to_jsonable(value: object, *, max_depth: int = ...) -> Json: ...


def to_jsonable(value: object, *, max_depth: int = MAX_DEPTH) -> Json:
    """Turn any value into JSON: what has no JSON form becomes text, cycles and depth are cut.

    Secrets stay masked, bytes become base64, NaN and the infinities become their names.
    """
    if type(value) is dict and (copied := _plain_copy(value, min(max_depth, 8))) is not None:
        return copied
    return _jsonable(value, max_depth, set())


def _plain_copy(value: dict[Any, Any], depth: int) -> dict[str, Json] | None:
    """Copy a dict of plain names, leaves and such dicts, which most values are; return None for others."""
    if depth <= 0:
        return None
    copied = value.copy()
    for key, item in value.items():
        if type(key) is not str or not key.isascii():
            return None
        kind = type(item)
        if kind is dict:
            inner = copied[key] = _plain_copy(item, depth - 1)
            if inner is None:
                return None
        elif kind not in AS_THEY_ARE and (kind is not str or not item.isascii()):
            return None
    return copied


def _jsonable(value: object, depth: int, above: set[int]) -> Json:
    kind = type(value)
    if kind is str:
        return mend_surrogates(value)  # type: ignore[arg-type]
    parts: Any = value
    if kind is not dict and kind is not list:
        parts = None if kind in SCALARS else _parts(value)
    if parts is None:
        return _leaf(value)
    if id(value) in above:
        return CYCLE
    if depth <= 0:
        return TOO_DEEP
    above.add(id(value))
    try:
        if isinstance(parts, list):
            return [
                item if type(item) in AS_THEY_ARE else _jsonable(item, depth - 1, above)
                for item in parts
            ]
        return {
            key if type(key) is str and key.isascii() else _name(key): item
            if type(item) in AS_THEY_ARE
            else _jsonable(item, depth - 1, above)
            for key, item in parts.items()
        }
    finally:
        above.discard(id(value))


def _parts(value: object) -> list[object] | dict[object, object] | None:
    """Return the items of a container; None for other values."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, AbstractSet):
        return sorted(value, key=repr)
    if isinstance(value, BaseModel):
        return dict[object, object](value)  # iterates over fields and extras
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def _leaf(value: object) -> Json:
    if type(value) is str:
        return mend_surrogates(value)
    if type(value) in AS_THEY_ARE:
        return cast("Json", value)
    for kinds, write in LEAVES:
        if isinstance(value, kinds):
            return write(value)
    return _described(value)


def _described(value: object) -> str:
    try:
        return mend_surrogates(repr(value))
    except Exception as error:  # noqa: BLE001  a broken __repr__ must not break a trace
        return f"<{type(value).__name__}: repr failed with {type(error).__name__}>"


def _name(key: object) -> str:
    if type(key) is str:
        return mend_surrogates(key)
    name = _leaf(key) if _parts(key) is None else _described(key)
    return name if isinstance(name, str) else json.dumps(name)


def _check_names(value: object, depth: int) -> None:
    if depth > MAX_DEPTH * 2:
        raise UsageError("not a JSON value: a cycle, or nested too deep")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise UsageError(f"not a JSON value: the name {key!r} is not text")
            _check_names(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_names(item, depth + 1)
