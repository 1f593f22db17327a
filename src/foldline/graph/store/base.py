"""`BaseStore` and its operations, under LangGraph's path; the code is in `foldline._items`, below agents."""

from __future__ import annotations

from foldline._items.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
    TTLConfig,
)

__all__ = [
    "BaseStore",
    "GetOp",
    "IndexConfig",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "Op",
    "PutOp",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
]
