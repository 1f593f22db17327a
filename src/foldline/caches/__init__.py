"""Caches of model answers: the interface, in memory, in a SQLite file, in PostgreSQL, in Redis."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.caches.base import RETURN_VAL_TYPE as RETURN_VAL_TYPE, BaseCache as BaseCache
    from foldline.caches.memory import InMemoryCache as InMemoryCache
    from foldline.caches.postgres import PostgresCache as PostgresCache
    from foldline.caches.redis import RedisCache as RedisCache
    from foldline.caches.sqlite import SQLiteCache as SQLiteCache
