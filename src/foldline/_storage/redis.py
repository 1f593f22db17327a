"""A Redis client, made at its first use (extra `redis`); its errors are `StoreError`s.

Only the blocking client is used: an async one belongs to one event loop, and a store must survive many. Async calls run
it in a thread, as for other stores.
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
    """A server: a URL, or a client of the user."""

    def __init__(self, url_or_client: str | RedisClient, *, timeout: float | None = None) -> None:
        """Use a URL, with a timeout in seconds for each answer, or a client with its own."""
        try:
            import redis  # noqa: PLC0415  an extra
        except ImportError as error:
            raise MissingExtraError(
                'Redis needs the package "redis": pip install "foldline[redis]"'
            ) from error
        self._redis = redis
        self._url_or_client = url_or_client
        self._options = (
            {}
            if timeout is None
            else {"socket_timeout": timeout, "socket_connect_timeout": timeout}
        )
        self._process_client: tuple[int, RedisClient] | None = None

    @property
    def _client(self) -> RedisClient:
        if not isinstance(self._url_or_client, str):
            return self._url_or_client
        if self._process_client is None or self._process_client[0] != os.getpid():
            self._process_client = (
                os.getpid(),
                self._redis.Redis.from_url(self._url_or_client, **self._options),
            )
        return self._process_client[1]

    @contextmanager
    def client(self) -> Generator[RedisClient, None, None]:
        """Yield the client; its errors become `StoreError`."""
        try:
            yield self._client
        except self._redis.exceptions.RedisError as error:
            raise StoreError(
                f"Redis did not answer: {error} (is the server running and reachable?)"
            ) from error

    @staticmethod
    def literal(text: str) -> str:
        """Escape a text for a key pattern."""
        return "".join(f"\\{char}" if char in "\\*?[]^-" else char for char in text)

    def close(self) -> None:
        """Close the idle connections."""
        if self._process_client is not None:
            self._process_client[1].close()
