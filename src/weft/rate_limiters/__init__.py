"""Rate limiters: wait until a call may be made; in memory, or in Redis for a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.rate_limiters.base import BaseRateLimiter
from weft.rate_limiters.memory import InMemoryRateLimiter

if TYPE_CHECKING:
    from weft.rate_limiters.redis import RedisRateLimiter

__all__ = ["BaseRateLimiter", "InMemoryRateLimiter", "RedisRateLimiter"]


def __getattr__(name: str) -> type:
    if name == "RedisRateLimiter":
        from weft.rate_limiters.redis import RedisRateLimiter  # noqa: PLC0415  an extra

        return RedisRateLimiter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
