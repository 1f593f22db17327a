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
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
from foldline._items.batched import AsyncBatchedBaseStore
from foldline._items.paths import get_text_at_path

__all__ = [
    "AsyncBatchedBaseStore",
    "BaseStore",
    "GetOp",
    "IndexConfig",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "Op",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
    "get_text_at_path",
    "validate_op_namespace",
]
