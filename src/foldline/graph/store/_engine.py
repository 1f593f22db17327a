"""`RowStore`, on which stores that keep rows are built; the code is in `foldline._items`, below agents."""

from __future__ import annotations

from foldline._items.engine import FIELDS, Row, RowStore, join_namespace, matches, split_namespace

__all__ = ["FIELDS", "Row", "RowStore", "join_namespace", "matches", "split_namespace"]
