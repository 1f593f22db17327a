"""Stores in this process: a dict."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Generic, TypeVar

from foldline.stores.base import BaseStore

__all__ = ["InMemoryBaseStore", "InMemoryByteStore", "InMemoryStore"]

V = TypeVar("V")


class InMemoryBaseStore(BaseStore[str, V], Generic[V]):
    """Stores values in a dict."""

    def __init__(self) -> None:
        """Begin empty."""
        self.store: dict[str, V] = {}

    def mget(self, keys: Sequence[str]) -> list[V | None]:
        """Return the values of some keys, None where there is none."""
        return [self.store.get(key) for key in keys]

    def mset(self, key_value_pairs: Sequence[tuple[str, V]]) -> None:
        """Store some values."""
        self.store.update(key_value_pairs)

    def mdelete(self, keys: Sequence[str]) -> None:
        """Delete some keys."""
        for key in keys:
            self.store.pop(key, None)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Return the keys, or those that begin with a prefix."""
        yield from [key for key in self.store if key.startswith(prefix or "")]

    # A dict does not block: the async methods need no thread.

    async def amget(self, keys: Sequence[str]) -> list[V | None]:
        """Return the values of some keys, None where there is none."""
        return self.mget(keys)

    async def amset(self, key_value_pairs: Sequence[tuple[str, V]]) -> None:
        """Store some values."""
        self.mset(key_value_pairs)

    async def amdelete(self, keys: Sequence[str]) -> None:
        """Delete some keys."""
        self.mdelete(keys)

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """Return the keys, or those that begin with a prefix."""
        for key in self.yield_keys(prefix=prefix):
            yield key


class InMemoryStore(InMemoryBaseStore[Any]):
    """Stores any values in a dict.

    ```python
    from foldline.stores import InMemoryStore

    store = InMemoryStore()
    store.mset([("a", 1), ("b", 2)])
    print(store.mget(["a", "z"]), list(store.yield_keys(prefix="b")))
    #> [1, None] ['b']
    ```
    """


class InMemoryByteStore(InMemoryBaseStore[bytes]):
    """Stores bytes in a dict."""
