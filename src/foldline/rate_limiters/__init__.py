"""Rate limiters: wait until a call may be made; in memory, or in Redis for a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import lazily

if TYPE_CHECKING:
    from foldline.rate_limiters.base import BaseRateLimiter
    from foldline.rate_limiters.memory import InMemoryRateLimiter
    from foldline.rate_limiters.redis import RedisRateLimiter

__all__ = ["BaseRateLimiter", "InMemoryRateLimiter", "RedisRateLimiter"]

__getattr__ = lazily(
    __name__,
    {
        ".base": "BaseRateLimiter",
        ".memory": "InMemoryRateLimiter",
        ".redis": "RedisRateLimiter",
    },
)
