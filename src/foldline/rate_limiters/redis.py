"""`RedisRateLimiter`: one token bucket for a fleet, kept in Redis (extra `redis`).

The bucket is filled and drawn from by a script that Redis runs whole, on Redis's own clock, so that machines whose
clocks differ share one rate.
"""

from __future__ import annotations

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._storage.redis import RedisClient, RedisServer
from foldline.exceptions import UsageError
from foldline.rate_limiters.base import BaseRateLimiter

__all__ = ["RedisRateLimiter"]

TAKE = """
local now = redis.call('TIME')
now = now[1] + now[2] / 1000000
local rate, size = tonumber(ARGV[1]), tonumber(ARGV[2])
local held = redis.call('HMGET', KEYS[1], 'tokens', 'last')
local tokens = math.min(size, (tonumber(held[1]) or 0) + (now - (tonumber(held[2]) or now)) * rate)
local wait = 0
if tokens >= 1 then tokens = tokens - 1 else wait = (1 - tokens) / rate end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'last', tostring(now))
redis.call('PEXPIRE', KEYS[1], math.ceil(size / rate * 1000) + 60000)
return tostring(wait)
"""
"""Gives 0 if a permission was taken, else the seconds until there may be one."""


class RedisRateLimiter(BaseRateLimiter):
    """A token bucket that all processes with the same `key` share."""

    def __init__(
        self,
        redis_: str | RedisClient = "redis://127.0.0.1:6379/0",
        *,
        key: str = "foldline:rate",
        requests_per_second: float = 1,
        max_bucket_size: float = 1,
    ) -> None:
        """Fill at a rate up to a size; the bucket begins empty."""
        if requests_per_second <= 0 or max_bucket_size < 1:
            raise UsageError("requests_per_second must be above 0 and max_bucket_size at least 1")
        self._server = RedisServer(redis_)
        self._key = key
        self._rate = requests_per_second
        self._size = max_bucket_size

    def _take(self) -> float:
        with self._server.client() as client:
            return float(client.eval(TAKE, 1, self._key, self._rate, self._size))

    async def _acquire(self, io: IO, *, wait: bool) -> bool:
        while (delay := await io.call(self._take)) > 0:
            if not wait:
                return False
            await io.sleep(delay)
        return True

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""
        return drive(self._acquire(BLOCKING, wait=blocking))

    async def aacquire(self, *, blocking: bool = True) -> bool:
        """Take one permission: wait for it, or say at once whether there is one."""
        return await self._acquire(ASYNC, wait=blocking)
