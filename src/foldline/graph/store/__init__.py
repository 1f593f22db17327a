"""Stores for data across threads, with namespaces and search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.graph.store.base import BaseStore, Item, SearchItem
    from foldline.graph.store.memory import InMemoryStore
    from foldline.graph.store.postgres import PostgresStore
    from foldline.graph.store.sqlite import SqliteStore

__all__ = ["BaseStore", "InMemoryStore", "Item", "PostgresStore", "SearchItem", "SqliteStore"]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "BaseStore Item SearchItem",
        ".memory": "InMemoryStore",
        ".postgres": "PostgresStore",
        ".sqlite": "SqliteStore",
    },
)
