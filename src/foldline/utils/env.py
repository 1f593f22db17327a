"""Reads values from the environment when they are used, never at import."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import SecretStr

from foldline.exceptions import UsageError

__all__ = ["env_var_is_set", "from_env", "get_from_dict_or_env", "get_from_env", "secret_from_env"]


class _NoDefault:
    """Marks that there is no default, because None may be one."""

    def __repr__(self) -> str:
        return "<no default>"


NO_DEFAULT: Final = _NoDefault()


def env_var_is_set(env_var: str) -> bool:
    """Whether a variable is set to a value other than "no"."""
    return os.environ.get(env_var, "") not in ("", "0", "false", "False")


def get_from_env(key: str, env_key: str, default: str | None = None) -> str:
    """Read a variable; `key` is the name of the parameter that it replaces."""
    value = os.environ.get(env_key) or default
    if value is None:
        raise UsageError(f"no {key}: set the environment variable {env_key}, or pass {key}=...")
    return value


def get_from_dict_or_env(
    data: Mapping[str, Any], key: str | list[str], env_key: str, default: str | None = None
) -> str:
    """Return the first of the keys that has a value, else the environment's value."""
    keys = [key] if isinstance(key, str) else key
    for name in keys:
        if value := data.get(name):
            return str(value)
    return get_from_env(keys[0], env_key, default=default)


def from_env(
    key: str | Sequence[str],
    /,
    *,
    default: str | _NoDefault | None = NO_DEFAULT,
    error_message: str | None = None,
) -> Callable[[], Any]:
    """Make a default factory that reads the first of these variables that is set."""
    keys = [key] if isinstance(key, str) else list(key)

    def read() -> str | None:
        for name in keys:
            if name in os.environ:
                return os.environ[name]
        if isinstance(default, _NoDefault):
            names = " or ".join(keys)
            raise UsageError(
                error_message or f"set the environment variable {names}, or pass the value"
            )
        return default

    return read


def secret_from_env(
    key: str | Sequence[str],
    /,
    *,
    default: str | _NoDefault | None = NO_DEFAULT,
    error_message: str | None = None,
) -> Callable[[], Any]:
    """As `from_env`, but the value is a `SecretStr`."""
    read = from_env(key, default=default, error_message=error_message)

    def read_secret() -> SecretStr | None:
        value = read()
        return None if value is None else SecretStr(value)

    return read_secret
