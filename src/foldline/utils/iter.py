"""Iterators: batches, and one iterator read by several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, tee
from typing import TypeVar

__all__ = ["batch_iterate", "safetee"]

T = TypeVar("T")


def batch_iterate(size: int | None, iterable: Iterable[T]) -> Iterator[list[T]]:
    """Return lists of `size` items, the last perhaps shorter; no size means one list."""
    if size is not None and size <= 0:
        raise ValueError(f"a batch has at least one item, not {size}")
    items = iter(iterable)
    while batch := list(islice(items, size)):
        yield batch


def safetee(iterable: Iterable[T], n: int = 2) -> tuple[Iterator[T], ...]:
    """Let several read one iterator, each at its own pace."""
    return tee(iterable, n)
