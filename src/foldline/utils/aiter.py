"""Asynchronous iterators: batches, and closing what was not read to its end. Nothing here waits on its own."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import aclosing
from typing import TypeVar

__all__ = ["abatch_iterate", "aclosing"]

T = TypeVar("T")


async def abatch_iterate(size: int | None, iterable: AsyncIterable[T]) -> AsyncIterator[list[T]]:
    """Return lists of `size` items, the last perhaps shorter; no size means one list."""
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
