"""`BaseStore` and its operations, under LangGraph's path; the code is in `foldline._items`, below agents."""

from __future__ import annotations

from foldline._items.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
from foldline._items.batched import AsyncBatchedBaseStore

__all__ = [
    "AsyncBatchedBaseStore",
    "BaseStore",
    "GetOp",
    "IndexConfig",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "Op",
    "PutOp",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
    "validate_op_namespace",
]
