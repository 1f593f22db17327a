"""`PerSaver`: what a process knows beside each saver, for as long as the saver lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["PerSaver"]

T = TypeVar("T")


class PerSaver(Generic[T]):
    """One object for each saver."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.known: dict[int, T] = {}
        """By the identity of the saver: one that somebody wrote may be unhashable, or be copied and pickled."""

    def of(self, saver: object) -> T:
        """Return the object of a saver; the first call makes it."""
        key = id(saver)
        found = self.known.get(key)
        if found is None:
            made = self._make()
            found = self.known.setdefault(key, made)
            if found is made:
                weakref.finalize(saver, self.known.pop, key, None)
        return found
