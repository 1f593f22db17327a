"""`InMemoryStore`: values in memory; the code is in `foldline._items`, below agents."""

from __future__ import annotations

from foldline._items.memory import InMemoryStore

__all__ = ["InMemoryStore"]
