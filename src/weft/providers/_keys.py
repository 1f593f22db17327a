"""Keys: a secret, a callable that gives one, or a variable of the environment; never shown, asked for when needed."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from pydantic import SecretStr

from weft._io import IO
from weft.exceptions import ModelAuthenticationError

Key: TypeAlias = SecretStr | str | Callable[[], str] | Callable[[], Awaitable[str]]
"""What `api_key` accepts."""


def key_from_env(variables: Sequence[str]) -> SecretStr | None:
    """Read the first variable that is set."""
    for variable in variables:
        if value := os.environ.get(variable):
            return SecretStr(value)
    return None


def missing_key(provider: str, variables: Sequence[str]) -> ModelAuthenticationError:
    """Say which variable to set."""
    names = " or ".join(variables) or "api_key"
    return ModelAuthenticationError(
        f"no API key: set the environment variable {names}, or pass api_key=...", provider=provider
    )


async def resolve_key(key: Key | None, io: IO) -> str | None:
    """Give the key in the clear, calling whoever knows it."""
    if key is None or isinstance(key, str):
        return key
    if isinstance(key, SecretStr):
        return key.get_secret_value()
    value: Any = await io.call(key)
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
