"""`RedisCache`: answers in Redis, shared by several machines (extra `redis`)."""

from __future__ import annotations

from foldline._storage.redis import RedisClient, RedisServer
from foldline.caches._values import hashed_key, pack, unpack
from foldline.caches.base import RETURN_VAL_TYPE, BaseCache

__all__ = ["RedisCache"]


class RedisCache(BaseCache):
    """Stores answers in Redis under a prefix.

    ```python {test="skip: needs a Redis server"}
    set_llm_cache(RedisCache("redis://127.0.0.1:6379/0", ttl=3600))
    ```
    """

    def __init__(
        self,
        redis_: str | RedisClient = "redis://127.0.0.1:6379/0",
        *,
        ttl: float | None = None,
        prefix: str = "foldline:cache:",
    ) -> None:
        """Use a server (a URL or your client); answers expire after `ttl` seconds."""
        self._server = RedisServer(redis_)
        self._milliseconds = None if ttl is None else max(1, round(ttl * 1000))
        self._prefix = prefix

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the cached answer, or None."""
        with self._server.client() as client:
            cached = client.get(self._prefix + hashed_key(prompt, llm_string))
        return None if cached is None else unpack(cached)

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Store an answer."""
        with self._server.client() as client:
            client.set(
                self._prefix + hashed_key(prompt, llm_string),
                pack(return_val),
                px=self._milliseconds,
            )

    def clear(self, **kwargs: object) -> None:
        """Delete everything under the prefix; other keys of the server stay."""
        with self._server.client() as client:
            for key in client.scan_iter(match=self._server.literal(self._prefix) + "*", count=1000):
                client.unlink(key)
