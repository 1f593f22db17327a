"""API keys: a secret, a function that returns one, or an environment variable; never shown, read when needed."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import BeforeValidator, SecretStr

from foldline.exceptions import ModelAuthenticationError, ModelError, UsageError

if TYPE_CHECKING:
    from foldline._io import IO
    from foldline.transports import HttpOptions

__all__ = [
    "MASK",
    "HiddenValues",
    "Key",
    "SecretKey",
    "chosen_key",
    "hide_secrets",
    "key_from_env",
    "missing_key",
    "public_options",
    "public_query",
    "public_url",
    "refuse_password",
    "resolve_key",
]

MASK = "***"
MIN_SECRET_LENGTH = 6
"""Shorter values are not masked: they would match everywhere."""
SECRET_NAME = (
    r"(?i)(^|[_-])(api[_-]?key|key|token|secret|password|auth|code|sig|signature|credentials?)$"
)
"""Names of query parameters whose values are not shown."""

SecretKey: TypeAlias = SecretStr | Callable[[], str] | Callable[[], Awaitable[str]]
"""A key as a model stores it."""


def _as_secret(value: object) -> object:
    if isinstance(value, str):
        return SecretStr(value)
    if value is None or isinstance(value, SecretStr) or callable(value):
        return value
    raise ValueError(
        f"api_key is text, a SecretStr or a function that gives it, not {type(value).__name__}"
    )


if TYPE_CHECKING:
    Key: TypeAlias = str | SecretKey | None
else:
    Key = Annotated[SecretKey | None, BeforeValidator(_as_secret)]
"""The type of a field that takes a key: a string becomes a secret immediately."""


def key_from_env(variables: Sequence[str]) -> SecretStr | None:
    """Return the first variable that is set. Called when a request is made, never when a model is created or loaded."""
    for variable in variables:
        if (value := os.environ.get(variable)) and value.strip():
            return SecretStr(value)
    return None


def chosen_key(key: Key, variables: Sequence[str]) -> SecretKey | None:
    """Return the key to send: the model's key, or the environment's if the model has none.

    A blank key means that no key is sent, not even the environment's.
    """
    if key is None:
        return key_from_env(variables)
    if isinstance(key, str):  # assigned to an existing model, without validation
        key = SecretStr(key)
    is_blank = isinstance(key, SecretStr) and not key.get_secret_value().strip()
    return None if is_blank else key


def missing_key(provider: str | None, variables: Sequence[str]) -> ModelAuthenticationError:
    """Return the error that names the variable to set."""
    advice = "pass api_key=..."
    if variables:
        advice = f"set the environment variable {' or '.join(variables)}, or {advice}"
    return ModelAuthenticationError(f"no API key: {advice}", provider=provider)


async def resolve_key(key: SecretKey | None, io: IO) -> str | None:
    """Return the key as plain text; a key function is called."""
    if key is None:
        return None
    if isinstance(key, SecretStr):
        return key.get_secret_value()
    value: Any = await io.call(key)
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if not isinstance(text, str):
        raise UsageError(
            f"the function given as api_key must return the key as text, not {type(text).__name__}"
        )
    if not text.strip():
        raise UsageError("the function given as api_key returned an empty text")
    return text


def hide_secrets(error: ModelError, secrets: Iterable[str]) -> None:
    """Mask secrets in the fields of an error: some gateways repeat the request that they refuse."""
    hidden = sorted(
        (secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH), key=len, reverse=True
    )
    for name in ("message", "body", "code", "request_id"):
        text = getattr(error, name)
        for secret in hidden:
            if isinstance(text, str):
                text = text.replace(secret, MASK)
        setattr(error, name, text)
    error.args = (error.message, *error.args[1:])


class HiddenValues(dict[str, str]):
    """Headers or query parameters that may hold a secret: `repr` (and so `vars(model)`) shows only the names."""

    def __repr__(self) -> str:
        return repr(dict.fromkeys(self, MASK))


def public_query(query: Mapping[str, str]) -> dict[str, str]:
    """Return the query without parameters whose name suggests a secret."""
    return {name: value for name, value in query.items() if not re.search(SECRET_NAME, name)}


def public_url(url: str) -> str:
    """Return a URL with the values of secret query parameters masked."""
    base, mark, query = url.partition("?")
    pairs = [pair.partition("=") for pair in query.split("&")] if mark else []
    shown = [
        f"{name}={MASK if re.search(SECRET_NAME, name) else value}" for name, _, value in pairs
    ]
    return f"{base}?{'&'.join(shown)}" if mark else url


def public_options(options: HttpOptions | None) -> HttpOptions | None:
    """Return connection options without headers and without the proxy's password."""
    if options is None:
        return None
    proxy = options.proxy
    if proxy is not None and "@" in proxy:
        scheme, _, address = proxy.rpartition("://")
        proxy = f"{scheme}://{address.rpartition('@')[2]}" if scheme else address.rpartition("@")[2]
    return replace(options, proxy=proxy, headers={})


def refuse_password(url: str | None) -> str | None:
    """Raise if a URL contains a password: URLs are shown, serialized and logged."""
    if url is not None and "@" in url and urlsplit(url).username is not None:
        raise ValueError(
            "the address holds a user name or password: pass api_key=... or default_headers={...}"
        )
    return url
