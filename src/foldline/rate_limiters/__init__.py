"""Rate limiters: wait until a request is allowed; in memory, in SQLite for one machine, in Redis for many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.rate_limiters.base import BaseRateLimiter
    from foldline.rate_limiters.limiter import Permit, QuotaLimiter
    from foldline.rate_limiters.memory import InMemoryRateLimiter
    from foldline.rate_limiters.quotas import Quota
    from foldline.rate_limiters.redis import LocalLimit, RedisRateLimiter
    from foldline.rate_limiters.sqlite import SQLiteRateLimiter

__all__ = [
    "BaseRateLimiter",
    "InMemoryRateLimiter",
    "LocalLimit",
    "Permit",
    "Quota",
    "QuotaLimiter",
    "RedisRateLimiter",
    "SQLiteRateLimiter",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "BaseRateLimiter",
        ".limiter": "Permit QuotaLimiter",
        ".memory": "InMemoryRateLimiter",
        ".quotas": "Quota",
        ".redis": "LocalLimit RedisRateLimiter",
        ".sqlite": "SQLiteRateLimiter",
    },
)
