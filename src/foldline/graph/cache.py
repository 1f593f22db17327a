"""`InMemoryCache`, `SqliteCache`: cache the results of nodes with a `CachePolicy` by their input."""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from foldline._io import mutex
from foldline._storage.database import Connection
from foldline._storage.open_database import open_database
from foldline._storage.schema import Schema, Upgrade
from foldline.exceptions import SchemaError
from foldline.graph._node_spec import NodeSpec
from foldline.utils._short_repr import short_repr
from foldline.workflows.values import pack

__all__ = [
    "BaseCache",
    "InMemoryCache",
    "SqliteCache",
]

Namespace = tuple[str, ...]


class BaseCache(ABC):
    """Stores texts by namespace and key, with an expiry time."""

    __repr__ = short_repr

    @abstractmethod
    def get(self, namespace: Namespace, key: str) -> str | None:
        """Return the stored text; None if there is none, or it has expired."""

    @abstractmethod
    def set(self, namespace: Namespace, key: str, value: str, ttl: float | None) -> None:
        """Store a text, for `ttl` seconds or without expiry."""

    @abstractmethod
    def clear(self, namespace: Namespace | None = None) -> None:
        """Delete everything, or the texts of a namespace."""


class InMemoryCache(BaseCache):
    """Stores results in memory."""

    def __init__(self) -> None:
        self._entries: dict[tuple[Namespace, str], tuple[str, float | None]] = {}
        self._lock = mutex()

    def get(self, namespace: Namespace, key: str) -> str | None:
        """Return the stored text; None if there is none, or it has expired."""
        with self._lock:
            value, expires_at = self._entries.get((namespace, key), (None, None))
            if expires_at is not None and expires_at <= time.time():
                del self._entries[namespace, key]
                return None
            return value

    def set(self, namespace: Namespace, key: str, value: str, ttl: float | None) -> None:
        """Store a text, for `ttl` seconds or without expiry."""
        with self._lock:
            self._entries[namespace, key] = value, None if ttl is None else time.time() + ttl

    def clear(self, namespace: Namespace | None = None) -> None:
        """Delete everything, or the texts of a namespace."""
        with self._lock:
            for entry_key in [key for key in self._entries if namespace in (None, key[0])]:
                del self._entries[entry_key]


SCHEMA: Final = Schema(
    kind="node_results",
    tables=("foldline_node_results",),
    create="""
    CREATE TABLE foldline_node_results (
        place TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, until {real}, PRIMARY KEY (place, key)
    )
    """,
    upgrades=(Upgrade(sqlite="ALTER TABLE node_results RENAME TO foldline_node_results"),),
)
READ: Final = (
    "SELECT value FROM foldline_node_results WHERE place = ? AND key = ? "
    "AND (until IS NULL OR until > ?)"
)
WRITE: Final = (
    "INSERT INTO foldline_node_results (place, key, value, until) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (place, key) DO UPDATE SET value = excluded.value, until = excluded.until"
)


class SqliteCache(BaseCache):
    """Stores results in an SQLite file."""

    def __init__(self, path: str | Path) -> None:
        self._database = open_database(path, SCHEMA)

    def get(self, namespace: Namespace, key: str) -> str | None:
        """Return the stored text; None if there is none, or it has expired."""
        rows = self._database.rows(READ, (json.dumps(namespace), key, time.time()))
        return rows[0][0] if rows else None

    def set(self, namespace: Namespace, key: str, value: str, ttl: float | None) -> None:
        """Store a text, for `ttl` seconds or without expiry."""
        row = json.dumps(namespace), key, value, None if ttl is None else time.time() + ttl
        self._database.write(lambda connection: connection.run(WRITE, row))

    def clear(self, namespace: Namespace | None = None) -> None:
        """Delete everything, or the texts of a namespace."""

        def work(connection: Connection) -> None:
            if namespace is None:
                connection.run("DELETE FROM foldline_node_results")
            else:
                place = json.dumps(namespace)
                connection.run("DELETE FROM foldline_node_results WHERE place = ?", (place,))

        self._database.write(work)

    def close(self) -> None:
        """Close the idle connections."""
        self._database.close()


def cache_key(spec: NodeSpec, value: object) -> str:
    """Return the key of a node's input."""
    policy = spec.cache_policy
    if policy is not None and policy.key_func is not None:
        raw_key = policy.key_func(value)
        text = (
            raw_key.decode("utf-8", "surrogateescape")
            if isinstance(raw_key, bytes)
            else str(raw_key)
        )
    else:
        try:
            text = json.dumps(_pack_values(value), sort_keys=True)
        except SchemaError as error:
            raise SchemaError(
                f"the node {spec.name!r} has a cache, and its input has no key: {error}. Pass CachePolicy(key_func=…)"
            ) from error
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _pack_values(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): pack(item, "its input", type(item)) for key, item in value.items()}
    return pack(value, "its input", type(value))
