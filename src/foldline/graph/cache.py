"""`InMemoryCache`, `SqliteCache`: results of nodes by their input, for nodes with a `CachePolicy`."""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from pathlib import Path

from foldline._io import mutex
from foldline._storage.sqlite import Database
from foldline.exceptions import SchemaError
from foldline.graph.nodes import NodeSpec
from foldline.utils.short_repr import short_repr
from foldline.workflows.values import pack

__all__ = ["BaseCache", "InMemoryCache", "SqliteCache", "cache_key"]

Namespace = tuple[str, ...]


class BaseCache(ABC):
    """Keeps texts by namespace and key, for some time."""

    __repr__ = short_repr

    @abstractmethod
    def get(self, namespace: Namespace, key: str) -> str | None:
        """Return what is kept; None where there is nothing, or it is too old."""

    @abstractmethod
    def set(self, namespace: Namespace, key: str, value: str, ttl: float | None) -> None:
        """Keep a text, for some seconds or for ever."""

    @abstractmethod
    def clear(self, namespace: Namespace | None = None) -> None:
        """Forget everything, or what is under a namespace."""


class InMemoryCache(BaseCache):
    """Keeps results in memory."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Namespace, str], tuple[str, float | None]] = {}
        self._lock = mutex()

    def get(self, namespace: Namespace, key: str) -> str | None:
        """Return what is kept; None where there is nothing, or it is too old."""
        with self._lock:
            value, until = self._kept.get((namespace, key), (None, None))
            if until is not None and until <= time.time():
                del self._kept[namespace, key]
                return None
            return value

    def set(self, namespace: Namespace, key: str, value: str, ttl: float | None) -> None:
        """Keep a text, for some seconds or for ever."""
        with self._lock:
            self._kept[namespace, key] = value, None if ttl is None else time.time() + ttl

    def clear(self, namespace: Namespace | None = None) -> None:
        """Forget everything, or what is under a namespace."""
        with self._lock:
            for place in [one for one in self._kept if namespace in (None, one[0])]:
                del self._kept[place]


MIGRATIONS = (
    "CREATE TABLE node_results (place TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, until REAL, "
    "PRIMARY KEY (place, key))",
)


class SqliteCache(BaseCache):
    """Keeps results in a SQLite file."""

    def __init__(self, path: str | Path) -> None:
        self._database = Database(path, "node_results", MIGRATIONS)

    def get(self, namespace: Namespace, key: str) -> str | None:
        """Return what is kept; None where there is nothing, or it is too old."""
        rows = self._database.rows(
            "SELECT value FROM node_results WHERE place = ? AND key = ? AND (until IS NULL OR until > ?)",
            (json.dumps(namespace), key, time.time()),
        )
        return rows[0][0] if rows else None

    def set(self, namespace: Namespace, key: str, value: str, ttl: float | None) -> None:
        """Keep a text, for some seconds or for ever."""
        until = None if ttl is None else time.time() + ttl
        with self._database.write() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO node_results (place, key, value, until) VALUES (?, ?, ?, ?)",
                (json.dumps(namespace), key, value, until),
            )

    def clear(self, namespace: Namespace | None = None) -> None:
        """Forget everything, or what is under a namespace."""
        with self._database.write() as connection:
            if namespace is None:
                connection.execute("DELETE FROM node_results")
            else:
                connection.execute(
                    "DELETE FROM node_results WHERE place = ?", (json.dumps(namespace),)
                )

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def cache_key(spec: NodeSpec, value: object) -> str:
    """Return the key of a node's input."""
    policy = spec.cache_policy
    if policy is not None and policy.key_func is not None:
        made = policy.key_func(value)
        text = made.decode("utf-8", "surrogateescape") if isinstance(made, bytes) else str(made)
    else:
        try:
            text = json.dumps(_pack_values(value), sort_keys=True)
        except SchemaError as error:
            raise SchemaError(
                f"the node {spec.name!r} has a cache, and its input has no key: {error}. Give CachePolicy(key_func=…)"
            ) from error
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _pack_values(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): pack(one, "its input", type(one)) for key, one in value.items()}
    return pack(value, "its input", type(value))
