"""Embeddings: text to vectors; kept in a store; made up for tests."""

from weft.embeddings.base import Embeddings
from weft.embeddings.cached import CacheBackedEmbeddings
from weft.embeddings.fake import DeterministicFakeEmbedding, FakeEmbeddings

__all__ = [
    "CacheBackedEmbeddings",
    "DeterministicFakeEmbedding",
    "Embeddings",
    "FakeEmbeddings",
]
