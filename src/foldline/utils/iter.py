"""Helpers for iterators: batches, and copies of an iterator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, tee
from typing import TypeVar

__all__ = ["batch_iterate", "safetee"]

T = TypeVar("T")


def batch_iterate(size: int | None, iterable: Iterable[T]) -> Iterator[list[T]]:
    """Yield lists of `size` items, the last perhaps shorter; without a size, one list."""
    if size is not None and size <= 0:
        raise ValueError(f"a batch has at least one item, not {size}")
    items = iter(iterable)
    while batch := list(islice(items, size)):
        yield batch


def safetee(iterable: Iterable[T], n: int = 2) -> tuple[Iterator[T], ...]:
    """Return copies of an iterator that are read independently."""
    return tee(iterable, n)
