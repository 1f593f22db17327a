"""`BaseStore`: values by key, many at a time. An author writes the sync methods; the async ones are derived."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Generic, TypeAlias, TypeVar

from foldline._io import ASYNC
from foldline.exceptions import UsageError
from foldline.utils._short_repr import short_repr

__all__ = ["BaseStore", "ByteStore", "InvalidKeyException"]

K = TypeVar("K")
V = TypeVar("V")


class InvalidKeyException(UsageError):
    """A key that this store does not accept."""


class BaseStore(ABC, Generic[K, V]):
    """Values by key."""

    __repr__ = short_repr

    @abstractmethod
    def mget(self, keys: Sequence[K]) -> list[V | None]:
        """Return the values of some keys, None where there is none."""

    @abstractmethod
    def mset(self, key_value_pairs: Sequence[tuple[K, V]]) -> None:
        """Store some values."""

    @abstractmethod
    def mdelete(self, keys: Sequence[K]) -> None:
        """Delete some keys."""

    @abstractmethod
    def yield_keys(self, *, prefix: str | None = None) -> Iterator[K]:
        """Return the keys, or those that begin with a prefix."""

    async def amget(self, keys: Sequence[K]) -> list[V | None]:
        """Return the values of some keys, None where there is none."""
        values: list[V | None] = await ASYNC.call(self.mget, keys)
        return values

    async def amset(self, key_value_pairs: Sequence[tuple[K, V]]) -> None:
        """Store some values."""
        await ASYNC.call(self.mset, key_value_pairs)

    async def amdelete(self, keys: Sequence[K]) -> None:
        """Delete some keys."""
        await ASYNC.call(self.mdelete, keys)

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[K]:
        """Return the keys, or those that begin with a prefix."""
        async with aclosing(ASYNC.each(self.yield_keys(prefix=prefix))) as keys:
            async for key in keys:
                yield key


ByteStore: TypeAlias = BaseStore[str, bytes]
