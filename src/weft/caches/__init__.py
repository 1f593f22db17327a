"""Caches of model answers: the interface and the in-memory one; SQLite and Redis beside it."""

from weft.caches.base import RETURN_VAL_TYPE, BaseCache
from weft.caches.memory import InMemoryCache

__all__ = ["RETURN_VAL_TYPE", "BaseCache", "InMemoryCache"]
