"""`SqliteStore`: values in a SQLite file; the code is in `foldline._items`, below agents."""

from __future__ import annotations

from foldline._items.sqlite import SqliteStore

__all__ = ["SqliteStore"]
