"""The embedding of the texts of a store; the code is in `foldline._items`, below agents."""

from __future__ import annotations

from foldline._items.embedder import StoreEmbedder, store_embedder

__all__ = ["StoreEmbedder", "store_embedder"]
