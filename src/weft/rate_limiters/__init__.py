"""Rate limiters: wait until a call may be made; in memory, or in Redis for a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily
from weft.rate_limiters.base import BaseRateLimiter
from weft.rate_limiters.memory import InMemoryRateLimiter

if TYPE_CHECKING:
    from weft.rate_limiters.redis import RedisRateLimiter

__all__ = ["BaseRateLimiter", "InMemoryRateLimiter", "RedisRateLimiter"]

# The driver is loaded by those who use it.
__getattr__ = lazily(__name__, {"RedisRateLimiter": ".redis"})
