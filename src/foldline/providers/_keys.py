"""Keys: a secret, a callable that gives one, or a variable of the environment; never shown, asked for when needed."""

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
SHORTEST = 6
"""A value shorter than this is no secret: it would turn up everywhere."""
SECRET_NAME = (
    r"(?i)(^|[_-])(api[_-]?key|key|token|secret|password|auth|code|sig|signature|credentials?)$"
)
"""Names of query parameters whose values are not shown."""

SecretKey: TypeAlias = SecretStr | Callable[[], str] | Callable[[], Awaitable[str]]
"""A key as it is kept."""


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
"""The type of a field that takes a key: text becomes a secret at once."""


def key_from_env(variables: Sequence[str]) -> SecretStr | None:
    """Read the first variable that is set. Called when a request is made, never when a model is built or loaded."""
    for variable in variables:
        if (value := os.environ.get(variable)) and value.strip():
            return SecretStr(value)
    return None


def chosen_key(given: Key, variables: Sequence[str]) -> SecretKey | None:
    """Return the key to send: the one given, or that of the environment where none was.

    One that is given and blank says that there is none: no other is sent in its place.
    """
    if given is None:
        return key_from_env(variables)
    if isinstance(given, str):  # set on a model that was made before, past validation
        given = SecretStr(given)
    is_blank = isinstance(given, SecretStr) and not given.get_secret_value().strip()
    return None if is_blank else given


def missing_key(provider: str | None, variables: Sequence[str]) -> ModelAuthenticationError:
    """Say which variable to set."""
    how = "pass api_key=..."
    if variables:
        how = f"set the environment variable {' or '.join(variables)}, or {how}"
    return ModelAuthenticationError(f"no API key: {how}", provider=provider)


async def resolve_key(key: SecretKey | None, io: IO) -> str | None:
    """Return the key in the clear, calling whoever knows it."""
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
    """Take out of an error what a server said back: gateways print the very request that they refuse."""
    hidden = sorted((one for one in secrets if len(one) >= SHORTEST), key=len, reverse=True)
    for name in ("message", "body", "code", "request_id"):
        text = getattr(error, name)
        for secret in hidden:
            if isinstance(text, str):
                text = text.replace(secret, MASK)
        setattr(error, name, text)
    error.args = (error.message, *error.args[1:])


class HiddenValues(dict[str, str]):
    """Headers or a query that may hold a secret: `repr` shows the names alone, so that `vars(model)` shows no value."""

    def __repr__(self) -> str:
        return repr(dict.fromkeys(self, MASK))


def public_query(query: Mapping[str, str]) -> dict[str, str]:
    """Return the query without what is named like a secret."""
    return {name: value for name, value in query.items() if not re.search(SECRET_NAME, name)}


def public_url(url: str) -> str:
    """Return a URL whose query shows no value that is named like a secret."""
    base, mark, query = url.partition("?")
    pairs = [pair.partition("=") for pair in query.split("&")] if mark else []
    shown = [
        f"{name}={MASK if re.search(SECRET_NAME, name) else value}" for name, _, value in pairs
    ]
    return f"{base}?{'&'.join(shown)}" if mark else url


def public_options(options: HttpOptions | None) -> HttpOptions | None:
    """Return the options of a connection without headers and without the proxy's password."""
    if options is None:
        return None
    proxy = options.proxy
    if proxy is not None and "@" in proxy:
        scheme, _, rest = proxy.rpartition("://")
        proxy = f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest.rpartition("@")[2]
    return replace(options, proxy=proxy, headers={})


def refuse_password(url: str | None) -> str | None:
    """Refuse an address that holds a password: an address is shown, dumped and logged."""
    if url is not None and "@" in url and urlsplit(url).username is not None:
        raise ValueError(
            "the address holds a user name or password: pass api_key=... or default_headers={...}"
        )
    return url
