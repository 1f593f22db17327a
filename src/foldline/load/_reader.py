"""Reads a dump: every tag is checked, every class is looked up, nothing else is touched.

The rule of this file: the data is untrusted. It cannot import, read the environment, open a file, or put a secret
where it would be shown. Anything that does not fit raises a `SchemaError` with its path.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from foldline.exceptions import SchemaError
from foldline.load._plain import CODECS
from foldline.load.dump import ESCAPE_KEY, MAX_DEPTH, MAX_VALUES
from foldline.load.registry import Allowance, ClassId, is_message
from foldline.load.serializable import FORMAT_VERSION, argument_name

__all__ = ["DumpReader", "InitValidator", "Secrets"]

InitValidator = Callable[[tuple[str, ...], dict[str, Any]], None]


HUB_ARGUMENTS = frozenset({"additional_content_fields", "additional_options"})
"""Arguments that LangChain's prompt hub writes into message parts and LangChain ignores: a copy of the template."""


class Secrets:
    """The secrets that one call of `load` may use."""

    def __init__(
        self, secrets: Mapping[str, str | None], *, from_env: Iterable[str] | bool
    ) -> None:
        self._secrets = secrets
        # True allows what the code of a class declares, and nothing that the data could choose.
        self._opens_declared = from_env is True
        self._names = frozenset(() if isinstance(from_env, bool) else from_env)

    def find(self, name: str, *, is_declared: bool) -> str | None:
        if name in self._secrets:
            return self._secrets[name]
        is_open = name in self._names or (is_declared and self._opens_declared)
        if is_open and name in os.environ:
            return os.environ[name]
        raise SchemaError(
            f"the secret {name!r} is not given; pass secrets_map={{{name!r}: ...}} or name it in "
            "secrets_from_env"
        )


class _Skipped:
    """A placeholder for a `not_implemented` mark, until its field or item is left out."""


_SKIPPED = _Skipped()


class DumpReader:
    """Reads one dump, and tracks the path to the current value."""

    def __init__(
        self,
        allowance: Allowance,
        secrets: Secrets,
        init_validator: InitValidator | None,
        *,
        skips_marks: bool,
    ) -> None:
        self._allowance = allowance
        self._secrets = secrets
        self._validate = init_validator
        self._skips_marks = skips_marks
        self._declared_name: str | None = None
        """The name of the secret that the current argument declares."""
        self._path: list[str] = []
        self._active: set[int] = set()
        self._count = 0

    def read(self, data: object) -> Any:  # noqa: ANN401  any value that was dumped
        """Read one value. Lists and dicts are read here, with one stack frame per level."""
        if not isinstance(data, (dict, list)):
            return data
        self._enter(data)
        if isinstance(data, list):
            value: Any = []
            for index, item in enumerate(data):
                self._path.append(f"[{index}]")
                value.append(self.read(item))
                self._path.pop()
            if self._skips_marks:
                value = [item for item in value if item is not _SKIPPED]
        elif "lc" in data:
            value = self._tag(data)
        elif ESCAPE_KEY in data and len(data) == 1:
            value = data[ESCAPE_KEY]  # LangChain's escape: plain data at every depth
        else:
            value = {}
            for key, item in data.items():
                self._path.append(str(key))
                value[key] = self.read(item)
                self._path.pop()
            value = self._without_marks(value)
        self._active.discard(id(data))
        return value

    def _enter(self, data: object) -> None:
        self._count += 1
        if self._count > MAX_VALUES:
            raise self._error(f"more than {MAX_VALUES:,} values")
        if id(data) in self._active or len(self._active) >= MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels")
        self._active.add(id(data))

    def _without_marks(self, values: dict[Any, Any]) -> dict[Any, Any]:
        if not self._skips_marks:
            return values
        return {key: value for key, value in values.items() if value is not _SKIPPED}

    def _items(self, data: dict[Any, Any]) -> dict[Any, Any]:
        values = {}
        for key, item in data.items():
            self._path.append(str(key))
            values[key] = self.read(item)
            self._path.pop()
        return self._without_marks(values)

    def _tag(self, data: dict[Any, Any]) -> object:
        kind = data.get("type")
        key = data.get("id")
        if type(data["lc"]) is not int or data["lc"] != FORMAT_VERSION:
            raise self._error(f"unknown format version {data['lc']!r:.80}")
        if not isinstance(key, list) or not key or not all(isinstance(part, str) for part in key):
            raise self._error("the id of a serialised object is a list of names")
        if kind == "constructor":
            return self._construct(tuple(key), data)
        if kind == "value":
            return self._decode_value(key, data)
        if kind == "secret":
            return self._secret(key, data)
        if kind == "not_implemented":
            return self._mark(key, data)
        raise self._error(f"unknown type of serialised object {kind!r:.80}")

    def _decode_value(self, key: list[str], data: dict[Any, Any]) -> Any:  # noqa: ANN401  any type that has a codec
        self._check_keys(data, {"lc", "type", "id", "value"})
        parts = data.get("value")
        try:
            if key == ["dict"] and isinstance(parts, dict):
                return self._items(parts)
            if key == ["map"] and isinstance(parts, list):
                return dict(self.read(parts))
            codec = CODECS[".".join(key)]
            return codec.decode(self.read(parts) if codec.nested else parts)
        except SchemaError:
            raise
        except (AttributeError, KeyError, ValueError, TypeError, ArithmeticError) as error:
            raise self._error(f"not a {'.'.join(key)!r:.80} value") from error

    def _secret(self, key: list[str], data: dict[Any, Any]) -> SecretStr | None:
        self._check_keys(data, {"lc", "type", "id", "name", "graph"})
        # Always wrapped: a reference planted in free text or metadata must not show the secret there.
        try:
            name = ".".join(key)
            secret = self._secrets.find(name, is_declared=name == self._declared_name)
        except SchemaError as error:
            raise self._error(str(error)) from None
        return None if secret is None else SecretStr(secret)

    def _mark(self, key: list[str], data: dict[Any, Any]) -> _Skipped:
        if self._skips_marks and self._path:
            return _SKIPPED
        raise self._error(
            f"{'.'.join(key)} was not serialisable when this was dumped; "
            "pass ignore_unserializable_fields=True to leave it out"
        )

    def _construct(self, key: ClassId, data: dict[Any, Any]) -> BaseModel:
        self._check_keys(data, {"lc", "type", "id", "kwargs", "name", "graph"})
        arguments = data.get("kwargs")
        if not isinstance(arguments, dict):
            raise self._error("the kwargs of a constructor are an object")
        try:
            cls = self._allowance.find(key)
        except SchemaError as error:
            raise self._error(str(error)) from None
        kwargs = self._arguments(cls, arguments)
        self._check_arguments(cls, kwargs)
        _open_declared_secrets(cls, kwargs)
        return self._build(cls, key, kwargs)

    def _arguments(self, cls: type[BaseModel], arguments: dict[Any, Any]) -> dict[str, Any]:
        outer_skips_marks = self._skips_marks
        # A mark in a message was an object that a program attached to it: the message comes back without it.
        self._skips_marks = outer_skips_marks or is_message(cls)
        declared = _secret_names(cls)
        kwargs = {}
        for key, item in arguments.items():
            is_secret = isinstance(item, dict) and item.get("type") == "secret"
            self._declared_name = declared.get(key) if is_secret else None
            self._path.append(str(key))
            kwargs[key] = self.read(item)
            self._path.pop()
        self._declared_name = None
        kwargs = self._without_marks(kwargs)
        self._skips_marks = outer_skips_marks
        return kwargs

    def _build(self, cls: type[BaseModel], key: ClassId, kwargs: dict[str, Any]) -> BaseModel:
        try:
            if self._validate is not None:
                self._validate(key, kwargs)
            return cls(**kwargs)
        except SchemaError as error:
            raise self._error(str(error)) from None
        except ValidationError as error:
            raise self._error(f"does not fit {cls.__name__}: {_issues(error)}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._error(f"does not fit {cls.__name__}: {error}") from error

    def _check_arguments(self, cls: type[BaseModel], kwargs: dict[str, Any]) -> None:
        if cls.model_config.get("extra") == "allow":
            return
        for name in HUB_ARGUMENTS & kwargs.keys() - _argument_names(cls):
            del kwargs[name]
        unknown = kwargs.keys() - _argument_names(cls)
        if unknown:
            raise self._error(f"{cls.__name__} has no argument {sorted(unknown)[0]!r:.80}")

    def _check_keys(self, data: dict[Any, Any], keys: set[str]) -> None:
        unknown = sorted(str(key) for key in data.keys() - keys)
        if unknown:
            raise self._error(f"a serialised object has no key {unknown[0]!r:.80}")

    def _error(self, reason: str) -> SchemaError:
        path = "".join(step if step.startswith("[") else f".{step:.80}" for step in self._path[:12])
        ellipsis = "..." if len(self._path) > 12 else ""
        return SchemaError(f"cannot load {path.lstrip('.') or 'the data'}{ellipsis}: {reason}")


@functools.cache
def _argument_names(cls: type[BaseModel]) -> frozenset[str]:
    names = set(cls.model_fields)
    names.update(argument_name(name, field) for name, field in cls.model_fields.items())
    # A constructor may take arguments that are not fields.
    names.update(inspect.signature(cls.__init__).parameters)
    return frozenset(
        names - {"self", "args", "kwargs", "data", "__pydantic_self__"} | cls.model_fields.keys()
    )


def _open_declared_secrets(cls: type[BaseModel], kwargs: dict[str, Any]) -> None:
    """Unwrap the secrets of arguments that the class declares as secret; Pydantic wraps them again."""
    for name, value in kwargs.items():
        if isinstance(value, SecretStr) and name in _declared_secrets(cls):
            kwargs[name] = value.get_secret_value()


def _secret_names(cls: type[BaseModel]) -> dict[str, str]:
    """Return the names of the secrets that a class declares, by argument."""
    prop = getattr(cls, "lc_secrets", None)
    names: dict[str, str] = {}
    if isinstance(prop, property) and prop.fget is not None:
        # Nearly always a literal; an instance would run the default factories.
        with contextlib.suppress(AttributeError, TypeError, KeyError):
            names.update(prop.fget(cls))
    for name, field in cls.model_fields.items():
        if name in names:
            names[argument_name(name, field)] = names[name]
    return names


def _declared_secrets(cls: type[BaseModel]) -> set[str]:
    declared = {name for name, field in cls.model_fields.items() if _is_secret(field)}
    declared.update(_secret_names(cls))
    aliases = {
        argument_name(name, field) for name, field in cls.model_fields.items() if name in declared
    }
    return declared | aliases


def _is_secret(field: FieldInfo) -> bool:
    text = str(field.annotation)
    return (
        field.annotation in (SecretStr, SecretBytes) or "SecretStr" in text or "SecretBytes" in text
    )


def _issues(error: ValidationError) -> str:
    # Pydantic's text quotes the input, which may contain a secret.
    return "; ".join(
        f"{'.'.join(str(part) for part in issue['loc'])}: {issue['msg']}"
        for issue in error.errors(include_input=False, include_url=False, include_context=False)[:3]
    )
