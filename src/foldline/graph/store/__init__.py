"""Stores for data across threads, with namespaces and search."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.graph.store.base import (
        BaseStore as BaseStore,
        Item as Item,
        SearchItem as SearchItem,
    )
    from foldline.graph.store.memory import InMemoryStore as InMemoryStore
    from foldline.graph.store.postgres import PostgresStore as PostgresStore
    from foldline.graph.store.sqlite import SqliteStore as SqliteStore
