"""A Redis client made when first used (extra `redis`), and its errors as ours.

Only the blocking client: an awaited one belongs to one event loop, and a store must survive many. Under an async call
the blocking one runs in a thread, like any other store.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

from foldline.exceptions import MissingExtraError, StoreError

__all__ = ["RedisClient", "RedisServer"]

RedisClient: TypeAlias = Any
"""A client of the `redis` package, which is an extra and so has no type here."""


class RedisServer:
    """One server: a URL, or a client of the user's own."""

    def __init__(self, url_or_client: str | RedisClient, *, timeout: float | None = None) -> None:
        """Use a URL, with a bound of seconds for each answer, or a client that has its own."""
        try:
            import redis  # noqa: PLC0415  an extra
        except ImportError as error:
            raise MissingExtraError(
                'Redis needs the package "redis": pip install "foldline[redis]"'
            ) from error
        self._redis = redis
        self._given = url_or_client
        self._options = (
            {}
            if timeout is None
            else {"socket_timeout": timeout, "socket_connect_timeout": timeout}
        )
        self._made: tuple[int, RedisClient] | None = None

    @property
    def _client(self) -> RedisClient:
        if not isinstance(self._given, str):
            return self._given
        if self._made is None or self._made[0] != os.getpid():
            self._made = (os.getpid(), self._redis.Redis.from_url(self._given, **self._options))
        return self._made[1]

    @contextmanager
    def client(self) -> Generator[RedisClient, None, None]:
        """Return the client; its errors leave the block as `StoreError`."""
        try:
            yield self._client
        except self._redis.exceptions.RedisError as error:
            raise StoreError(
                f"Redis did not answer: {error} (is the server running and reachable?)"
            ) from error

    @staticmethod
    def literal(text: str) -> str:
        """Spell text so that a key pattern means exactly it."""
        return "".join(f"\\{char}" if char in "\\*?[]^-" else char for char in text)

    def close(self) -> None:
        """Close connections that nobody uses."""
        if self._made is not None:
            self._made[1].close()
