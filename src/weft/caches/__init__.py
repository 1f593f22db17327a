"""Caches of model answers: the interface, in memory, in a SQLite file; in Redis with the extra of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.caches.base import RETURN_VAL_TYPE, BaseCache
from weft.caches.memory import InMemoryCache

if TYPE_CHECKING:
    from weft.caches.redis import RedisCache
    from weft.caches.sqlite import SQLiteCache

__all__ = ["RETURN_VAL_TYPE", "BaseCache", "InMemoryCache", "RedisCache", "SQLiteCache"]


def __getattr__(name: str) -> type:
    # sqlite3 and redis are loaded by those who use them.
    if name == "SQLiteCache":
        from weft.caches.sqlite import SQLiteCache  # noqa: PLC0415

        return SQLiteCache
    if name == "RedisCache":
        from weft.caches.redis import RedisCache  # noqa: PLC0415

        return RedisCache
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
