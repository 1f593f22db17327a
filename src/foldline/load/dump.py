"""Writing: any serialisable value as JSON that `foldline.load.load` turns back into an equal value.

The rule of the file: what is written can be read back exactly, or writing fails with the path of what
could not be written. Data that looks like one of our own tags is wrapped, so that it stays data; secrets
become references.
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

__all__ = ["ESCAPE_KEY", "MAX_DEPTH", "MAX_VALUES", "default", "dumpd", "dumps"]

Unserializable = Literal["mark", "raise"]
Namespace = Literal["foldline", "langchain"]
NAMESPACES = ("foldline", "langchain")

ESCAPE_KEY = "__lc_escaped__"
"""LangChain's mark for data that looks like a tag: what is inside is plain data, all the way down."""
MAX_DEPTH = 256
"""Levels of JSON in one dump."""
MAX_VALUES = 10_000_000
"""Values in one dump; a small structure of shared lists can mean an endless tree."""
MAX_INTEGER_BITS = 10_000  # Python refuses to read integers of more than 4,300 decimal digits
SECRET_TYPES = (SecretStr, SecretBytes)
SHORTEST_SECRET = 8  # shorter ones are looked for as whole strings only


def dumps(
    obj: object,
    *,
    pretty: bool = False,
    unserializable: Unserializable | None = None,
    namespace: Namespace = "foldline",
    **kwargs: Any,
) -> str:
    """Write `obj` as JSON text; `pretty` indents it, other options go to `json.dumps`.

    `namespace="langchain"` writes what LangChain's own `loads` reads.
    """
    if "default" in kwargs:
        raise UsageError(
            "`default` should not be passed to dumps: make the class a Serializable, or register it"
        )
    if pretty:
        kwargs.setdefault("indent", 2)
    try:
        written = dumpd(obj, unserializable=unserializable, namespace=namespace)
        return json.dumps(written, allow_nan=False, **kwargs)
    except RecursionError as error:
        raise SchemaError("the value is nested too deep for the stack left here") from error


def dumpd(
    obj: object,
    *,
    unserializable: Unserializable | None = None,
    namespace: Namespace = "foldline",
) -> Any:  # noqa: ANN401  JSON of whatever was dumped
    """Write `obj` as JSON-able Python values.

    What cannot be written raises a `SchemaError` inside data (messages, documents, plain containers) and
    becomes a `not_implemented` mark inside behaviours (runnables, models); `unserializable` sets one
    rule for both. `namespace="langchain"` writes ids that LangChain's own `load` knows.
    """
    if namespace not in NAMESPACES:
        raise UsageError(f"namespace is one of {', '.join(NAMESPACES)}, not {namespace!r:.100}")
    try:
        return _Writer(unserializable, obj, namespace).write(obj)
    except RecursionError as error:
        raise SchemaError("the value is nested too deep for the stack left here") from error


def default(obj: object) -> object:
    """Write one object for `json.dumps(..., default=default)`; what cannot be written is marked.

    Only `dumps` keeps look-alikes of our tags apart in the data around the object.
    """
    return dumpd(obj, unserializable="mark")


class _Writer:
    """One walk over one value, with the path to where it is."""

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
        """Write one value. Lists and dicts are walked here, at one stack frame per level."""
        self._count += 1
        if self._count > MAX_VALUES:
            raise self._error(f"more than {MAX_VALUES:,} values")
        if type(value) is str and not self._secrets and value.isascii():
            return value
        if not isinstance(value, (dict, list)) or type(value) is SecretReference:
            return self._leaf(value)
        self._enter(value)
        if isinstance(value, list):
            written: Any = []
            for index, item in enumerate(value):
                self._path.append(f"[{index}]")
                written.append(self.write(item))
                self._path.pop()
        elif all(isinstance(key, str) and _is_text(key) for key in value):
            written = {}
            for key, item in value.items():
                self._path.append(key)
                written[str.__str__(key)] = self.write(item)
                self._path.pop()
            written = self._finished(value, written)
        else:
            written = self._tagged("map", self.write([[key, item] for key, item in value.items()]))
        self._leave(value)
        return written

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
        written = self._model(value) if isinstance(value, BaseModel) else self._other(value)
        self._leave(value)
        return written

    def _other(self, value: object) -> object:
        if type(value) is SecretReference:
            return dict(value)
        if isinstance(value, SECRET_TYPES):
            return dict(secret_reference(self._secret_name()))
        codec = codec_of(value)
        if codec is None:
            return self._unknown(value)
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

    def _finished(self, value: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
        if self._secrets and any(self._shows_secret(key) for key in written):
            raise self._error("a key of this dict holds a secret")
        if "lc" not in written and ESCAPE_KEY not in written:
            return written
        # What looks like one of our tags is wrapped, so that it comes back as the data it is: as LangChain wraps it
        # where JSON says all of it, else as a value of ours, whose inside is read.
        if not self._secrets and _is_json(value):
            return {ESCAPE_KEY: copy.deepcopy(value)}
        return self._tagged("dict", written)

    def _model(self, value: BaseModel) -> object:
        described = self._describe(value)
        if described is None:
            return self._unknown(value)
        cls = type(value)
        if belongs_to_another_class(cls, tuple(described["id"])):
            name = ".".join(described["id"])
            raise self._error(f"{cls!r} would be written as {name}, which is another class")
        outer = self._marks, self._secrets, self._is_message
        self._is_message = is_message(cls) or (self._is_message and not is_value(cls))
        self._marks = self._rule == "mark" or (self._rule is None and not is_value(cls))
        own_secrets = _secret_values(value)
        if own_secrets:
            self._secrets = {**self._secrets, **own_secrets}
        kwargs = {}
        for name, item in described["kwargs"].items():
            self._path.append(name)
            kwargs[name] = self.write(item)
            self._path.pop()
        self._marks, self._secrets, self._is_message = outer
        if self._namespace == "langchain":
            return {**described, "id": self._langchain_id(described["id"]), "kwargs": kwargs}
        return {**described, "kwargs": kwargs}

    def _langchain_id(self, path: list[str]) -> list[str]:
        if path[0] != "foldline":
            return path  # a class of the program's own
        if path[-1] not in LANGCHAIN_IDS:
            raise self._error(f"LangChain has no class that it would load as {'.'.join(path)}")
        return LANGCHAIN_IDS[path[-1]]

    def _describe(self, value: BaseModel) -> SerializedConstructor | None:
        if isinstance(value, Serializable):
            described = value.to_json()
            return described if described["type"] == "constructor" else None
        if not is_registered(type(value)):
            return None
        return {
            "lc": FORMAT_VERSION,
            "type": "constructor",
            "id": class_id(type(value)),
            "kwargs": useful_fields(value),
        }

    def _unknown(self, value: object) -> object:
        if self._is_message and self._rule is None:
            # What a program hung on a message (a parsed answer, an artifact) must not cost it its history.
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
        more = "..." if len(self._path) > 12 else ""
        return SchemaError(f"cannot dump {path.lstrip('.') or 'the value'}{more}: {reason}")


def _is_json(value: object) -> bool:
    """Say whether JSON text gives the value back exactly, without a codec."""
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
    """Return the secrets of a model by value, so that a copy of one in another field is found as well."""
    names = model.lc_secrets if isinstance(model, Serializable) else {}
    found: dict[str, str] = {}
    for name, value in (*model.__dict__.items(), *(model.__pydantic_extra__ or {}).items()):
        if isinstance(value, SECRET_TYPES):
            plain: object = value.get_secret_value()
        elif name in names:
            plain = value
        else:
            continue
        text = plain.decode(errors="replace") if isinstance(plain, bytes) else plain
        if isinstance(text, str) and text:
            found[text] = names.get(name, name.upper())
    return found
