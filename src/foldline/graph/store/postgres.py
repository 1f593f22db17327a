"""`PostgresStore`: values in PostgreSQL; the code is in `foldline._items`, below agents."""

from __future__ import annotations

from foldline._items.postgres import PostgresStore

__all__ = ["PostgresStore"]
