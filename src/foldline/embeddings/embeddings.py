"""LangChain's path of `Embeddings`, which is defined in `base`."""

from foldline.embeddings.base import Embeddings

__all__ = ["Embeddings"]
