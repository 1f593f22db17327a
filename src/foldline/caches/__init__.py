"""Caches of model answers: the interface, in memory, in a SQLite file, in PostgreSQL, in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.caches.base import RETURN_VAL_TYPE, BaseCache
    from foldline.caches.memory import InMemoryCache
    from foldline.caches.postgres import PostgresCache
    from foldline.caches.redis import RedisCache
    from foldline.caches.sqlite import SQLiteCache

__all__ = [
    "RETURN_VAL_TYPE",
    "BaseCache",
    "InMemoryCache",
    "PostgresCache",
    "RedisCache",
    "SQLiteCache",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "BaseCache RETURN_VAL_TYPE",
        ".memory": "InMemoryCache",
        ".postgres": "PostgresCache",
        ".redis": "RedisCache",
        ".sqlite": "SQLiteCache",
    },
)
