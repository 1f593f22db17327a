"""`RedisChatMessageHistory`: conversations in Redis (extra `redis`), one list each; one RPUSH appends all or none."""

from __future__ import annotations

from foldline._storage.redis import RedisClient, RedisServer
from foldline.chat_history._stored import StoredChatMessageHistory

__all__ = ["RedisChatMessageHistory"]


class RedisChatMessageHistory(StoredChatMessageHistory):
    """One conversation in Redis; the session is part of a key and never of a pattern."""

    def __init__(
        self,
        session_id: str,
        url: str | RedisClient = "redis://127.0.0.1:6379/0",
        *,
        key_prefix: str = "foldline:history:",
        ttl: float | None = None,
    ) -> None:
        """Open a conversation (`url`: also a client of your own); it vanishes `ttl` seconds after the last message."""
        super().__init__(session_id)
        self._server = RedisServer(url)
        self._key = key_prefix + self._session
        self._milliseconds = None if ttl is None else max(1, round(ttl * 1000))

    def _rows(self) -> list[tuple[str | bytes, str]]:
        with self._server.client() as client:
            values = client.lrange(self._key, 0, -1)
        return [
            (value, f"Redis {self._key}: message {place}") for place, value in enumerate(values)
        ]

    def _append(self, texts: list[str]) -> None:
        with self._server.client() as client, client.pipeline(transaction=True) as transaction:
            transaction.rpush(self._key, *texts)
            if self._milliseconds is not None:
                transaction.pexpire(self._key, self._milliseconds)
            transaction.execute()

    def clear(self) -> None:
        """Forget this conversation."""
        with self._server.client() as client:
            client.delete(self._key)

    def drop_oldest(self, count: int) -> None:
        """Forget the oldest messages of this conversation."""
        with self._server.client() as client:
            client.ltrim(self._key, count, -1)
