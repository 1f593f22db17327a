"""Embeddings: text to vectors; kept in a store; made up for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.embeddings.base import Embeddings
    from weft.embeddings.cached import CacheBackedEmbeddings
    from weft.embeddings.fake import DeterministicFakeEmbedding, FakeEmbeddings

__all__ = [
    "CacheBackedEmbeddings",
    "DeterministicFakeEmbedding",
    "Embeddings",
    "FakeEmbeddings",
]

__getattr__ = lazily(
    __name__,
    {
        ".base": "Embeddings",
        ".cached": "CacheBackedEmbeddings",
        ".fake": "DeterministicFakeEmbedding FakeEmbeddings",
    },
)
