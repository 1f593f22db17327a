"""`short_repr`: an object in one line: its class, and the plain arguments that differ from their defaults.

`readable`: a value inside such a line, without addresses.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from functools import cache
from pathlib import PurePath
from typing import Any

__all__ = ["fields_repr", "readable", "short_repr"]

HIDDEN = (
    "key",
    "secret",
    "token",
    "password",
    "conninfo",
    "url",
    "uri",
    "dsn",
    "auth",
    "credential",
)
"""Parts of names whose values may be secret, or hold one."""
LONGEST = 60


def short_repr(self: object) -> str:
    """Return `Class(name=value)`; assign it to `__repr__` in the body of a class.

    ```python
    from foldline.rate_limiters import InMemoryRateLimiter

    print(InMemoryRateLimiter(requests_per_second=5))
    #> InMemoryRateLimiter(requests_per_second=5)
    ```
    """
    for cls in type(self).__mro__[:-1]:
        other = cls.__dict__.get("__repr__", short_repr)
        if other is not short_repr:  # a second base class, Pydantic's for one, shows more
            text: str = other(self)
            return text
    arguments = []
    for name, default in _parameters(type(self)):  # type: ignore[arg-type] # a class has a hash
        value = _value(self, name)
        if isinstance(value, str | int | float | PurePath) and value != default:
            arguments.append(f"{name}={_shorten(value)}")
    return f"{type(self).__name__}({', '.join(arguments)})"


def fields_repr(self: Any) -> str:  # noqa: ANN401  any dataclass
    """Return `Class(name=value)` with the fields of a dataclass that differ from their defaults.

    Assign it to `__repr__` in the body of a class whose fields hold functions.

    ```python
    from foldline.workflows import RetryPolicy

    print(RetryPolicy(max_attempts=5, retry_on=lambda error: True))
    #> RetryPolicy(max_attempts=5, retry_on=<lambda>)
    ```
    """
    arguments = []
    for field in fields(self):
        value = getattr(self, field.name)
        factory = field.default_factory
        default = field.default if factory is MISSING else factory()
        if field.repr and value is not default and value != default:
            arguments.append(f"{field.name}={readable(value)!r}")
    return f"{type(self).__name__}({', '.join(arguments)})"


class _Text:
    """A text that is its own `repr`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def readable(value: object, depth: int = 8) -> object:
    """Return a value for `repr`: functions and classes by name, other objects without their address.

    Containers inside one another are read to the given depth, so that one that contains itself ends.

    ```python
    from foldline.utils._short_repr import readable

    print(readable({"f": len, "n": [1, object()]}))
    #> {'f': len, 'n': [1, object(...)]}
    ```
    """
    if value is None or depth == 0 or isinstance(value, str | int | float | bytes):
        return value
    if type(value) is dict:
        return {key: readable(item, depth - 1) for key, item in value.items()}
    if type(value) in (list, tuple):
        items = [readable(item, depth - 1) for item in value]  # type: ignore[attr-defined] # a list or a tuple
        return items if type(value) is list else tuple(items)
    if inspect.isroutine(value) or (isinstance(value, type) and not hasattr(value, "__args__")):
        return _Text(value.__qualname__.replace("<locals>.", ""))
    text = repr(value)
    if " at 0x" in text and text.startswith("<"):
        return _Text(f"{type(value).__name__}(...)")
    is_type = getattr(value, "__args__", None) is not None
    return _Text(f"{text[:LONGEST]}…") if is_type and len(text) > LONGEST else value


def _shorten(value: str | float | PurePath) -> str:
    if isinstance(value, PurePath):
        return repr(str(value))
    is_long = isinstance(value, str) and len(value) > LONGEST
    return repr(f"{value[:LONGEST]}…") if is_long and isinstance(value, str) else repr(value)


@cache
def _parameters(cls: type[Any]) -> tuple[tuple[str, Any], ...]:
    """Return the named parameters of the constructors of a class and its bases, with defaults."""
    defaults: dict[str, Any] = {}
    for kind in cls.__mro__[:-1]:
        if inspect.isfunction(init := kind.__dict__.get("__init__")):
            parameters = list(inspect.signature(init).parameters.values())[1:]
            for parameter in parameters:
                if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    defaults.setdefault(parameter.name, parameter.default)
            if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
                break
    hidden = {name for name in defaults if any(part in name.lower() for part in HIDDEN)}
    return tuple((name, default) for name, default in defaults.items() if name not in hidden)


def _value(target: object, name: str) -> object:
    # Not by `getattr`: a property may open a file or a connection.
    attributes = getattr(target, "__dict__", {})
    return attributes.get(name, attributes.get(f"_{name}"))
