"""Embeddings: the base class, caching in a store, and fakes for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.embeddings.base import Embeddings
    from foldline.embeddings.cached import CacheBackedEmbeddings
    from foldline.embeddings.fake import DeterministicFakeEmbedding, FakeEmbeddings

__all__ = [
    "CacheBackedEmbeddings",
    "DeterministicFakeEmbedding",
    "Embeddings",
    "FakeEmbeddings",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "Embeddings",
        ".cached": "CacheBackedEmbeddings",
        ".fake": "DeterministicFakeEmbedding FakeEmbeddings",
    },
)
