"""Rate limiters: wait until a request is allowed; in memory, in SQLite for one machine, in Redis for many."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.rate_limiters.base import BaseRateLimiter as BaseRateLimiter
    from foldline.rate_limiters.limiter import Permit as Permit, QuotaLimiter as QuotaLimiter
    from foldline.rate_limiters.memory import InMemoryRateLimiter as InMemoryRateLimiter
    from foldline.rate_limiters.quotas import Quota as Quota
    from foldline.rate_limiters.redis import (
        LocalLimit as LocalLimit,
        RedisRateLimiter as RedisRateLimiter,
    )
    from foldline.rate_limiters.sqlite import SQLiteRateLimiter as SQLiteRateLimiter
