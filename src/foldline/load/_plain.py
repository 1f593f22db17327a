"""Codecs for Python values that JSON does not have, each with one exact form: a closed table.

A codec turns a value into JSON-able parts and back; it opens nothing and builds nothing but that value.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["CODECS", "codec_of"]


class ValueCodec(NamedTuple):
    """How one Python type is encoded; `nested` parts contain values that are encoded in turn."""

    name: str
    kind: type
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    nested: bool = False


def _decode_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _decode_timedelta(parts: list[int]) -> datetime.timedelta:
    days, seconds, microseconds = parts
    return datetime.timedelta(days, seconds, microseconds)


def _decode_text(text: str) -> str:
    return _decode_bytes(text).decode("utf-8", "surrogatepass")


def _encode_text(text: str) -> str:
    # Two lone surrogates in a row would come back from JSON text as one character.
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _decode_float(text: str) -> float:
    return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[text]


def _decode_integer(text: str) -> int:
    return int(text, 16)


CODECS: dict[str, ValueCodec] = {
    codec.name: codec
    for codec in (
        ValueCodec("tuple", tuple, list, tuple, nested=True),
        ValueCodec("set", set, list, set, nested=True),
        ValueCodec("frozenset", frozenset, list, frozenset, nested=True),
        ValueCodec("bytes", bytes, lambda value: base64.b64encode(value).decode(), _decode_bytes),
        ValueCodec(
            "bytearray",
            bytearray,
            lambda value: base64.b64encode(value).decode(),
            lambda text: bytearray(_decode_bytes(text)),
        ),
        # A datetime is also a date: it must come first.
        ValueCodec(
            "datetime",
            datetime.datetime,
            datetime.datetime.isoformat,
            datetime.datetime.fromisoformat,
        ),
        ValueCodec("date", datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
        ValueCodec("time", datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
        ValueCodec(
            "timedelta",
            datetime.timedelta,
            lambda value: [value.days, value.seconds, value.microseconds],
            _decode_timedelta,
        ),
        ValueCodec("uuid", uuid.UUID, str, uuid.UUID),
        ValueCodec("decimal", decimal.Decimal, str, decimal.Decimal),
        # The last three are JSON types; the writer uses these codecs only for values that JSON text would change.
        ValueCodec("str", str, _encode_text, _decode_text),
        ValueCodec("float", float, repr, _decode_float),
        ValueCodec("int", int, hex, _decode_integer),
    )
}

_BY_KIND = {codec.kind: codec for codec in CODECS.values()}


def codec_of(value: object) -> ValueCodec | None:
    """Return the codec for `value`, also if its type is a subclass (it comes back equal, as the base type)."""
    exact = _BY_KIND.get(type(value))
    if exact is not None:
        return exact
    return next((codec for codec in CODECS.values() if isinstance(value, codec.kind)), None)
