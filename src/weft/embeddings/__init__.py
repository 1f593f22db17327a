"""Embeddings: text to vectors."""

from weft.embeddings.base import Embeddings

__all__ = ["Embeddings"]
