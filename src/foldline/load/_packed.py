"""Values as JSON that is read back exactly: plain JSON, and a closed set of tags for what JSON does not have.

Tuples, sets, bytes, dates, messages and documents have a tag. A Pydantic model, a dataclass or an enum is written as
plain data under the tag `model`; only a declared type can rebuild it (`foldline.workflows.values`). Data that is read
cannot name code.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from foldline.exceptions import SchemaError
from foldline.load._compact import compact_message, read_message
from foldline.load.dump import dumpd
from foldline.load.load import load
from foldline.load.registry import is_provider, is_registered
from foldline.load.serializable import Serializable, class_id

__all__ = ["MESSAGE", "MODEL", "TAG", "Packer", "Reader"]

TAG = "__foldline__"
MODEL = "model"
"""The tag of a value that only a declared type can rebuild."""
MESSAGE = "message"
"""The tag of a message in its compact form."""
MAX_DEPTH = 200


class Packer:
    """Writes one value; `needs_type` is the class of an object in it that only a declared type can rebuild."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.needs_type: type | None = None

    def pack(self, value: Any, depth: int = 0) -> object:  # noqa: ANN401  a value of any type; unsupported ones are rejected
        """Return a value as JSON; raise `SchemaError` for one that cannot be written."""
        kind = type(value)
        if value is None or kind in (str, int, float, bool):
            return value
        if depth > MAX_DEPTH:
            raise SchemaError(f"{self.where} is nested deeper than {MAX_DEPTH} levels")
        if kind is list:
            return [self.pack(item, depth + 1) for item in value]
        if kind is dict:
            return self._dict(value, depth)
        writer = WRITERS.get(kind)
        if writer is not None:
            return {TAG: kind.__name__, "v": writer(value)}
        if kind in (tuple, set, frozenset):
            items = sorted(value, key=repr) if kind is not tuple else value
            return {TAG: kind.__name__, "v": [self.pack(item, depth + 1) for item in items]}
        return self._object(value, depth)

    def _dict(self, value: dict[Any, Any], depth: int) -> object:
        if TAG not in value and all(type(key) is str for key in value):
            return {key: self.pack(item, depth + 1) for key, item in value.items()}
        pairs = [
            [self.pack(key, depth + 1), self.pack(item, depth + 1)] for key, item in value.items()
        ]
        return {TAG: "dict", "v": pairs}

    def _object(self, value: object, depth: int) -> object:
        message = compact_message(value)
        if message is not None:
            return {TAG: MESSAGE, "v": message}
        if isinstance(value, Serializable) and _is_loadable(value):
            return {TAG: "lc", "v": dumpd(value)}
        fields: Any
        if isinstance(value, BaseModel):
            fields = {
                name: self.pack(getattr(value, name), depth + 1)
                for name in type(value).model_fields
            }
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {
                item.name: self.pack(getattr(value, item.name), depth + 1)
                for item in dataclasses.fields(value)
            }
        elif isinstance(value, Enum):
            fields = self.pack(value.value, depth + 1)
        elif isinstance(value, tuple):
            fields = [self.pack(item, depth + 1) for item in value]
        elif isinstance(value, Mapping):
            return self._dict(dict(value), depth)
        elif isinstance(value, str | int | float | list):
            return self.pack(
                PLAIN_TYPES[next(base for base in PLAIN_TYPES if isinstance(value, base))](value)
            )
        else:
            raise SchemaError(
                f"{self.where} holds a {type(value).__name__}, which cannot be stored: use plain data, a dataclass, "
                "a Pydantic model or a message"
            )
        self.needs_type = type(value)
        return {TAG: MODEL, "v": fields}


def _is_loadable(value: Serializable) -> bool:
    """Whether `load` would build the value again; any other needs a declared type."""
    cls = type(value)
    return (
        value.is_lc_serializable() and is_registered(cls) and not is_provider(tuple(class_id(cls)))
    )


PLAIN_TYPES: dict[type, Callable[[Any], Any]] = {str: str, int: int, float: float, list: list}
WRITERS: dict[type, Callable[[Any], Any]] = {
    bytes: lambda value: base64.b64encode(value).decode(),
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Decimal: str,
    UUID: str,
    complex: str,
}
READERS: dict[str, Callable[[Any], Any]] = {
    "bytes": lambda value: base64.b64decode(value, validate=True),
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda value: timedelta(*value),
    "Decimal": Decimal,
    "UUID": UUID,
    "complex": complex,
}


class Reader:
    """Reads one value; `saw_model` is whether an object in it became plain data."""

    def __init__(self) -> None:
        self.saw_model = False

    def unpack(self, packed: object) -> Any:  # noqa: ANN401, PLR0911  a value of the declared type; one line per kind
        """Return the value of its JSON form."""
        if isinstance(packed, list):
            return [self.unpack(item) for item in packed]
        if not isinstance(packed, dict):
            return packed
        tag = packed.get(TAG)
        if tag is None:
            return {key: self.unpack(item) for key, item in packed.items()}
        value = packed["v"]
        if tag == MESSAGE:
            return read_message(value)
        if tag == "lc":
            return load(value)
        if tag == MODEL:
            self.saw_model = True
            return self.unpack(value)
        if tag == "dict":
            return {self.unpack(key): self.unpack(item) for key, item in value}
        if tag in ("tuple", "set", "frozenset"):
            items = [self.unpack(item) for item in value]
            return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](items)
        if tag in READERS:
            return READERS[tag](value)
        raise SchemaError(f"a value has the tag {tag!r:.40}, which this version does not know")
