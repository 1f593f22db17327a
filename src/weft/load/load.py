"""Reading: JSON from `weft.load.dump` (or from LangChain's) back into equal values.

The rule of the file: the data is hostile. It can name a row of the registry and nothing else; it cannot
import, read the environment, open a file, or place a secret where it would be shown. Everything that does
not fit is a `SchemaError` that says where.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from weft.exceptions import SchemaError, UsageError
from weft.load._plain import CODECS
from weft.load.dump import ESCAPE_KEY, MAX_DEPTH, MAX_VALUES
from weft.load.registry import Allowance, AllowedObjects, ClassId, is_provider
from weft.load.serializable import FORMAT_VERSION, argument_name
from weft.utils.json import JsonError, parse_strict

__all__ = ["InitValidator", "default_init_validator", "load", "loads"]

Json: TypeAlias = Any
InitValidator = Callable[[tuple[str, ...], dict[str, Any]], None]

CODE_ONLY = ("url", "api_base", "endpoint", "header", "prox", "host", "transport", "client")
"""Words in the names of a provider's arguments that data may not set: where keys and prompts go."""


def default_init_validator(class_path: tuple[str, ...], kwargs: dict[str, Any]) -> None:
    """Refuse jinja2 templates, which are programs, and addresses in the arguments of providers."""
    if kwargs.get("template_format") == "jinja2":
        raise SchemaError("a jinja2 template is a program; data may not bring one")
    if not is_provider(class_path):
        return
    for name, value in kwargs.items():
        if value is not None and any(word in name.lower() for word in CODE_ONLY):
            raise SchemaError(
                f"data may not set {name!r}: it says where keys and prompts are sent. "
                "If you trust the data, pass init_validator=None."
            )


def loads(
    text: str | bytes,
    *,
    allowed_objects: AllowedObjects = None,
    secrets_map: Mapping[str, str | None] | None = None,
    valid_namespaces: list[str] | None = None,
    secrets_from_env: Iterable[str] | bool = False,
    additional_import_mappings: dict[ClassId, ClassId] | None = None,
    ignore_unserializable_fields: bool = False,
    init_validator: InitValidator | None = default_init_validator,
) -> Any:  # noqa: ANN401  whatever was dumped
    """Read JSON text written by `dumps`; the options are those of `load`."""
    return load(
        _parse(text),
        allowed_objects=allowed_objects,
        secrets_map=secrets_map,
        valid_namespaces=valid_namespaces,
        secrets_from_env=secrets_from_env,
        additional_import_mappings=additional_import_mappings,
        ignore_unserializable_fields=ignore_unserializable_fields,
        init_validator=init_validator,
    )


def load(
    obj: Json,
    *,
    allowed_objects: AllowedObjects = None,
    secrets_map: Mapping[str, str | None] | None = None,
    valid_namespaces: list[str] | None = None,
    secrets_from_env: Iterable[str] | bool = False,
    additional_import_mappings: dict[ClassId, ClassId] | None = None,
    ignore_unserializable_fields: bool = False,
    init_validator: InitValidator | None = default_init_validator,
) -> Any:  # noqa: ANN401  whatever was dumped
    """Read what `dumpd` wrote.

    `allowed_objects` is `"messages"`, `"core"` (the default: values, prompts, parsers, runnables), `"all"`
    (providers too) or a list of classes. `valid_namespaces` opens registered classes below a module.
    Secrets come from `secrets_map`, or from the environment variables named in `secrets_from_env`.
    """
    allowance = Allowance(allowed_objects, valid_namespaces, additional_import_mappings)
    reader = _Reader(
        allowance,
        _Secrets(secrets_map or {}, from_env=secrets_from_env),
        init_validator,
        skips_marks=ignore_unserializable_fields,
    )
    try:
        return reader.read(obj)
    except RecursionError as error:
        raise SchemaError("the data is nested too deep for the stack left here") from error


class _Secrets:
    """The secrets one call of `load` may use."""

    def __init__(self, given: Mapping[str, str | None], *, from_env: Iterable[str] | bool) -> None:
        if from_env is True:
            raise UsageError(
                "secrets_from_env=True would let the data choose which variables are read; "
                'name them: secrets_from_env=["OPENAI_API_KEY"]'
            )
        self._given = given
        self._names = frozenset(from_env or ())

    def find(self, name: str) -> str | None:
        if name in self._given:
            return self._given[name]
        if name in self._names and name in os.environ:
            return os.environ[name]
        raise SchemaError(
            f"the secret {name!r} is not given; pass secrets_map={{{name!r}: ...}} or name it in "
            "secrets_from_env"
        )


class _Skipped:
    """Stands where a `not_implemented` mark was, until its field or item is left out."""


_SKIPPED = _Skipped()


class _Reader:
    """One walk over one dump, with the path to where it is."""

    def __init__(
        self,
        allowance: Allowance,
        secrets: _Secrets,
        init_validator: InitValidator | None,
        *,
        skips_marks: bool,
    ) -> None:
        self._allowance = allowance
        self._secrets = secrets
        self._validate = init_validator
        self._skips_marks = skips_marks
        self._path: list[str] = []
        self._active: set[int] = set()
        self._count = 0

    def read(self, data: Json) -> Any:  # noqa: ANN401  whatever was dumped
        """Read one value. Lists and dicts are walked here, at one stack frame per level."""
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
            value = data[ESCAPE_KEY]  # LangChain's escape: plain data, all the way down
        else:
            value = {}
            for key, item in data.items():
                self._path.append(str(key))
                value[key] = self.read(item)
                self._path.pop()
            value = self._without_marks(value)
        self._active.discard(id(data))
        return value

    def _enter(self, data: Json) -> None:
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

    def _items(self, data: dict[Any, Json]) -> dict[Any, Any]:
        values = {}
        for key, item in data.items():
            self._path.append(str(key))
            values[key] = self.read(item)
            self._path.pop()
        return self._without_marks(values)

    def _tag(self, data: dict[Any, Json]) -> Any:  # noqa: ANN401
        kind = data.get("type")
        key = data.get("id")
        if type(data["lc"]) is not int or data["lc"] != FORMAT_VERSION:
            raise self._error(f"unknown format version {data['lc']!r:.80}")
        if not isinstance(key, list) or not key or not all(isinstance(part, str) for part in key):
            raise self._error("the id of a serialised object is a list of names")
        if kind == "constructor":
            return self._construct(tuple(key), data)
        if kind == "value":
            return self._plain(key, data)
        if kind == "secret":
            return self._secret(key, data)
        if kind == "not_implemented":
            return self._mark(key, data)
        raise self._error(f"unknown type of serialised object {kind!r:.80}")

    def _plain(self, key: list[str], data: dict[Any, Json]) -> Any:  # noqa: ANN401
        self._only(data, {"lc", "type", "id", "value"})
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
        except (KeyError, ValueError, TypeError, ArithmeticError) as error:
            raise self._error(f"not a {'.'.join(key)!r:.80} value") from error

    def _secret(self, key: list[str], data: dict[Any, Json]) -> SecretStr | None:
        self._only(data, {"lc", "type", "id", "name", "graph"})
        # Always wrapped: a reference planted in free text or metadata must not show the secret there.
        try:
            found = self._secrets.find(".".join(key))
        except SchemaError as error:
            raise self._error(str(error)) from None
        return None if found is None else SecretStr(found)

    def _mark(self, key: list[str], data: dict[Any, Json]) -> _Skipped:
        if self._skips_marks and self._path:
            return _SKIPPED
        raise self._error(
            f"{'.'.join(key)} was not serialisable when this was dumped; "
            "pass ignore_unserializable_fields=True to leave it out"
        )

    def _construct(self, key: ClassId, data: dict[Any, Json]) -> BaseModel:
        self._only(data, {"lc", "type", "id", "kwargs", "name", "graph"})
        arguments = data.get("kwargs")
        if not isinstance(arguments, dict):
            raise self._error("the kwargs of a constructor are an object")
        try:
            cls = self._allowance.find(key)
        except SchemaError as error:
            raise self._error(str(error)) from None
        kwargs = self._items(arguments)
        self._check_arguments(cls, kwargs)
        _open_declared_secrets(cls, kwargs)
        return self._build(cls, key, kwargs)

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
        unknown = kwargs.keys() - _argument_names(cls)
        if unknown:
            raise self._error(f"{cls.__name__} has no argument {sorted(unknown)[0]!r:.80}")

    def _only(self, data: dict[Any, Json], keys: set[str]) -> None:
        unknown = sorted(str(key) for key in data.keys() - keys)
        if unknown:
            raise self._error(f"a serialised object has no key {unknown[0]!r:.80}")

    def _error(self, reason: str) -> SchemaError:
        path = "".join(step if step.startswith("[") else f".{step:.80}" for step in self._path[:12])
        more = "..." if len(self._path) > 12 else ""
        return SchemaError(f"cannot load {path.lstrip('.') or 'the data'}{more}: {reason}")


@functools.cache
def _argument_names(cls: type[BaseModel]) -> frozenset[str]:
    names = set(cls.model_fields)
    names.update(argument_name(name, field) for name, field in cls.model_fields.items())
    # A hand-written constructor may take arguments that are not fields.
    names.update(inspect.signature(cls.__init__).parameters)
    return frozenset(
        names - {"self", "args", "kwargs", "data", "__pydantic_self__"} | cls.model_fields.keys()
    )


def _open_declared_secrets(cls: type[BaseModel], kwargs: dict[str, Any]) -> None:
    """Hand the plain secret to arguments that the class declares as secret; Pydantic wraps it again."""
    for name, value in kwargs.items():
        if isinstance(value, SecretStr) and name in _declared_secrets(cls):
            kwargs[name] = value.get_secret_value()


def _declared_secrets(cls: type[BaseModel]) -> set[str]:
    declared = {name for name, field in cls.model_fields.items() if _is_secret(field)}
    prop = getattr(cls, "lc_secrets", None)
    if isinstance(prop, property) and prop.fget is not None:
        # Nearly always a literal; building an object to ask it would run its default factories.
        with contextlib.suppress(AttributeError, TypeError, KeyError):
            declared.update(prop.fget(cls))
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
    # Pydantic's own text quotes the input, which may hold a secret.
    return "; ".join(
        f"{'.'.join(str(part) for part in issue['loc'])}: {issue['msg']}"
        for issue in error.errors(include_input=False, include_url=False, include_context=False)[:3]
    )


def _parse(text: str | bytes) -> Json:
    try:
        # The reader bounds the depth; looking for it in the text first would cost as much again.
        return parse_strict(text, max_depth=sys.maxsize)
    except (JsonError, TypeError) as error:
        raise SchemaError(f"cannot load the text: it is not strict JSON: {error}") from error
