"""Keys: a secret, a callable that gives one, or a variable of the environment; never shown, asked for when needed."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, SecretStr

from weft._io import IO
from weft.exceptions import ModelAuthenticationError, UsageError

__all__ = ["Key", "SecretKey", "key_from_env", "missing_key", "resolve_key"]

SecretKey: TypeAlias = SecretStr | Callable[[], str] | Callable[[], Awaitable[str]]
"""A key as it is kept."""


def _as_secret(value: Any) -> Any:  # noqa: ANN401  what a constructor was given
    if isinstance(value, str):
        return SecretStr(value)
    if value is None or isinstance(value, SecretStr) or callable(value):
        return value
    raise ValueError(
        f"api_key is text, a SecretStr or a function that gives it, not {type(value).__name__}"
    )


Key = Annotated[SecretKey | None, BeforeValidator(_as_secret)]
"""The type of a field that takes a key: text becomes a secret at once."""


def key_from_env(variables: Sequence[str]) -> SecretStr | None:
    """Read the first variable that is set. Called when a request is made, never when a model is built or loaded."""
    for variable in variables:
        if value := os.environ.get(variable):
            return SecretStr(value)
    return None


def missing_key(provider: str | None, variables: Sequence[str]) -> ModelAuthenticationError:
    """Say which variable to set."""
    how = "pass api_key=..."
    if variables:
        how = f"set the environment variable {' or '.join(variables)}, or {how}"
    return ModelAuthenticationError(f"no API key: {how}", provider=provider)


async def resolve_key(key: SecretKey | None, io: IO) -> str | None:
    """Give the key in the clear, calling whoever knows it."""
    if key is None:
        return None
    if isinstance(key, SecretStr):
        return key.get_secret_value()
    value: Any = await io.call(key)
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if not isinstance(value, str) or not value:
        raise UsageError(
            f"the function given as api_key must return the key as text, not {type(value).__name__}"
        )
    return value
