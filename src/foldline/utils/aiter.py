"""Helpers for async iterators: batches, and closing."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import aclosing
from typing import TypeVar

__all__ = ["abatch_iterate", "aclosing"]

T = TypeVar("T")


async def abatch_iterate(size: int | None, iterable: AsyncIterable[T]) -> AsyncIterator[list[T]]:
    """Yield lists of `size` items, the last perhaps shorter; without a size, one list."""
    if size is not None and size <= 0:
        raise ValueError(f"a batch has at least one item, not {size}")
    batch: list[T] = []
    async for item in iterable:
        batch.append(item)
        if size is not None and len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch
