"""Where LangChain keeps `Embeddings`; it is in `base`, like every base class of foldline."""

from foldline.embeddings.base import Embeddings

__all__ = ["Embeddings"]
