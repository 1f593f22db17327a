"""Writes any serialisable value as JSON that `foldline.load.load` turns back into an equal value.

The rule of this file: what is written can be read back exactly, or writing fails with the path of the value that
cannot be written. Data that looks like one of our tags is escaped, so that it stays data; secrets become references.
"""

from __future__ import annotations

import copy
import json
import math
from typing import Any, Literal

from pydantic import BaseModel, SecretBytes, SecretStr

from foldline.exceptions import SchemaError, UsageError
from foldline.load._plain import CODECS, codec_of
from foldline.load.mapping import LANGCHAIN_IDS
from foldline.load.registry import belongs_to_another_class, is_message, is_registered, is_value
from foldline.load.serializable import (
    FORMAT_VERSION,
    SecretReference,
    Serializable,
    SerializedConstructor,
    class_id,
    secret_reference,
    to_json_not_implemented,
    useful_fields,
)

__all__ = [
    "default",
    "dumpd",
    "dumps",
]

Unserializable = Literal["mark", "raise"]
Namespace = Literal["foldline", "langchain"]
NAMESPACES = ("foldline", "langchain")

ESCAPE_KEY = "__lc_escaped__"
"""LangChain's mark for data that looks like a tag: its content is plain data at every depth."""
MAX_DEPTH = 256
"""Levels of JSON in one dump."""
MAX_VALUES = 10_000_000
"""Values in one dump; a small structure of shared lists can expand to a huge tree."""
MAX_INTEGER_BITS = 10_000  # Python refuses to read integers of more than 4,300 decimal digits
SECRET_TYPES = (SecretStr, SecretBytes)
SHORTEST_SECRET = 8  # shorter secrets are compared with complete strings only


def dumps(
    obj: object,
    *,
    pretty: bool = False,
    unserializable: Unserializable | None = None,
    namespace: Namespace = "foldline",
    **kwargs: Any,
) -> str:
    """Write `obj` as JSON text; `pretty` indents it, other options go to `json.dumps`.

    `namespace="langchain"` writes JSON that LangChain's own `loads` reads.
    """
    if "default" in kwargs:
        raise UsageError(
            "`default` should not be passed to dumps: make the class a Serializable, or register it"
        )
    if pretty:
        kwargs.setdefault("indent", 2)
    try:
        json_value = dumpd(obj, unserializable=unserializable, namespace=namespace)
        return json.dumps(json_value, allow_nan=False, **kwargs)
    except RecursionError as error:
        raise SchemaError("the value is nested too deep for the stack left here") from error


def dumpd(
    obj: object,
    *,
    unserializable: Unserializable | None = None,
    namespace: Namespace = "foldline",
) -> Any:  # noqa: ANN401  JSON of any shape
    """Write `obj` as JSON-able Python values.

    A value that cannot be written raises a `SchemaError` inside data (messages, documents, plain containers) and
    becomes a `not_implemented` mark inside behaviours (runnables, models); `unserializable` sets one rule for both.
    `namespace="langchain"` writes ids that LangChain's own `load` knows.
    """
    if namespace not in NAMESPACES:
        raise UsageError(f"namespace is one of {', '.join(NAMESPACES)}, not {namespace!r:.100}")
    try:
        return _Writer(unserializable, obj, namespace).write(obj)
    except RecursionError as error:
        raise SchemaError("the value is nested too deep for the stack left here") from error


def default(obj: object) -> object:
    """Return one object as JSON for `json.dumps(..., default=default)`, with marks for what cannot be written.

    Only `dumps` escapes data around the object that looks like one of our tags.
    """
    return dumpd(obj, unserializable="mark")


class _Writer:
    """Writes one value, and tracks the path to the current part."""

    def __init__(
        self, unserializable: Unserializable | None, root: object, namespace: Namespace
    ) -> None:
        self._rule = unserializable
        self._namespace = namespace
        is_data = isinstance(root, dict | list | tuple | set | frozenset)
        self._marks = unserializable == "mark" or (unserializable is None and not is_data)
        self._path: list[str] = []
        self._active: set[int] = set()
        self._count = 0
        self._secrets: dict[str, str] = {}
        self._is_message = False

    def write(self, value: object) -> object:
        """Write one value. Lists and dicts are written here, with one stack frame per level."""
        self._count += 1
        if self._count > MAX_VALUES:
            raise self._error(f"more than {MAX_VALUES:,} values")
        if type(value) is str and not self._secrets and value.isascii():
            return value
        if not isinstance(value, (dict, list)) or type(value) is SecretReference:
            return self._leaf(value)
        self._enter(value)
        if isinstance(value, list):
            result: Any = []
            for index, item in enumerate(value):
                self._path.append(f"[{index}]")
                result.append(self.write(item))
                self._path.pop()
        elif all(isinstance(key, str) and _is_text(key) for key in value):
            result = {}
            for key, item in value.items():
                self._path.append(key)
                result[str.__str__(key)] = self.write(item)
                self._path.pop()
            result = self._escape_tags(value, result)
        else:
            result = self._tagged("map", self.write([[key, item] for key, item in value.items()]))
        self._leave(value)
        return result

    def _leaf(self, value: object) -> object:
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return self._integer(value)
        if isinstance(value, float):
            return self._float(value)
        self._enter(value)
        result = self._model(value) if isinstance(value, BaseModel) else self._non_json(value)
        self._leave(value)
        return result

    def _non_json(self, value: object) -> object:
        if type(value) is SecretReference:
            return dict(value)
        if isinstance(value, SECRET_TYPES):
            return dict(secret_reference(self._secret_name()))
        codec = codec_of(value)
        if codec is None:
            return self._unserializable(value)
        parts = codec.encode(value)
        return self._tagged(codec.name, self.write(parts) if codec.nested else parts)

    def _text(self, value: str) -> object:
        text = value if type(value) is str else str.__str__(value)
        if self._secrets and self._shows_secret(text):
            return dict(secret_reference(self._secrets.get(text) or self._secret_name()))
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                return self._tagged("str", CODECS["str"].encode(text))
        return text

    def _integer(self, value: int) -> object:
        number = value if type(value) is int else int.__int__(value)
        if number.bit_length() > MAX_INTEGER_BITS:
            return self._tagged("int", CODECS["int"].encode(number))
        return number

    def _float(self, value: float) -> object:
        number = value if type(value) is float else float.__float__(value)
        if not math.isfinite(number):
            return self._tagged("float", CODECS["float"].encode(number))
        return number

    def _escape_tags(self, value: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        if self._secrets and any(self._shows_secret(key) for key in result):
            raise self._error("a key of this dict holds a secret")
        if "lc" not in result and ESCAPE_KEY not in result:
            return result
        # Data that looks like one of our tags is wrapped, so that it comes back as data: in LangChain's escape if it is
        # plain JSON, else in a value of ours, whose content is decoded.
        if not self._secrets and _is_json(value):
            return {ESCAPE_KEY: copy.deepcopy(value)}
        return self._tagged("dict", result)

    def _model(self, value: BaseModel) -> object:
        description = self._describe(value)
        if description is None:
            return self._unserializable(value)
        cls = type(value)
        if belongs_to_another_class(cls, tuple(description["id"])):
            name = ".".join(description["id"])
            raise self._error(f"{cls!r} would be written as {name}, which is another class")
        outer_state = self._marks, self._secrets, self._is_message
        self._is_message = is_message(cls) or (self._is_message and not is_value(cls))
        self._marks = self._rule == "mark" or (self._rule is None and not is_value(cls))
        own_secrets = _secret_values(value)
        if own_secrets:
            self._secrets = {**self._secrets, **own_secrets}
        kwargs = {}
        for name, item in description["kwargs"].items():
            self._path.append(name)
            kwargs[name] = self.write(item)
            self._path.pop()
        self._marks, self._secrets, self._is_message = outer_state
        if self._namespace == "langchain":
            return {**description, "id": self._langchain_id(description["id"]), "kwargs": kwargs}
        return {**description, "kwargs": kwargs}

    def _langchain_id(self, path: list[str]) -> list[str]:
        if path[0] != "foldline":
            return path  # a class of the user's program
        if path[-1] not in LANGCHAIN_IDS:
            raise self._error(f"LangChain has no class that it would load as {'.'.join(path)}")
        return LANGCHAIN_IDS[path[-1]]

    def _describe(self, value: BaseModel) -> SerializedConstructor | None:
        if isinstance(value, Serializable):
            description = value.to_json()
            return description if description["type"] == "constructor" else None
        if not is_registered(type(value)):
            return None
        return {
            "lc": FORMAT_VERSION,
            "type": "constructor",
            "id": class_id(type(value)),
            "kwargs": useful_fields(value),
        }

    def _unserializable(self, value: object) -> object:
        if self._is_message and self._rule is None:
            # An object that a program attached to a message (a parsed answer, an artifact) must not make it unwritable.
            if isinstance(value, BaseModel) and not isinstance(value, Serializable):
                return self.write(value.model_dump())
            return dict(to_json_not_implemented(value))
        if self._marks:
            return dict(to_json_not_implemented(value))
        raise self._error(
            f"{type(value).__module__}.{type(value).__qualname__} cannot be written as JSON. "
            'Write plain values, or pass unserializable="mark" to leave a mark in its place.'
        )

    def _enter(self, value: object) -> None:
        if id(value) in self._active:
            raise self._error("the value contains itself")
        if len(self._active) >= MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels")
        self._active.add(id(value))

    def _leave(self, value: object) -> None:
        self._active.discard(id(value))

    def _tagged(self, name: str, parts: object) -> dict[str, Any]:
        return {"lc": FORMAT_VERSION, "type": "value", "id": [name], "value": parts}

    def _secret_name(self) -> str:
        return ".".join(self._path).upper() or "SECRET"

    def _shows_secret(self, text: object) -> bool:
        return isinstance(text, str) and any(
            secret == text or (len(secret) >= SHORTEST_SECRET and secret in text)
            for secret in self._secrets
        )

    def _error(self, reason: str) -> SchemaError:
        path = "".join(step if step.startswith("[") else f".{step}" for step in self._path[:12])
        ellipsis = "..." if len(self._path) > 12 else ""
        return SchemaError(f"cannot dump {path.lstrip('.') or 'the value'}{ellipsis}: {reason}")


def _is_json(value: object) -> bool:
    """Return whether JSON text restores the value exactly, without a codec."""
    kind = type(value)
    if value is None or kind is bool:
        return True
    if isinstance(value, str):
        return kind is str and _is_text(value)
    if isinstance(value, int):
        return kind is int and value.bit_length() <= MAX_INTEGER_BITS
    if isinstance(value, float):
        return kind is float and math.isfinite(value)
    if isinstance(value, dict):
        return kind is dict and all(
            type(key) is str and _is_text(key) and _is_json(item) for key, item in value.items()
        )
    return isinstance(value, list) and kind is list and all(map(_is_json, value))


def _is_text(key: str) -> bool:
    if key.isascii():
        return True
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _secret_values(model: BaseModel) -> dict[str, str]:
    """Return the secrets of a model by value, so that copies of them in other fields are found too."""
    names = model.lc_secrets if isinstance(model, Serializable) else {}
    names_by_value: dict[str, str] = {}
    for name, value in (*model.__dict__.items(), *(model.__pydantic_extra__ or {}).items()):
        if isinstance(value, SECRET_TYPES):
            secret: object = value.get_secret_value()
        elif name in names:
            secret = value
        else:
            continue
        text = secret.decode(errors="replace") if isinstance(secret, bytes) else secret
        if isinstance(text, str) and text:
            names_by_value[text] = names.get(name, name.upper())
    return names_by_value
