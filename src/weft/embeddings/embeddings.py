"""Where LangChain keeps `Embeddings`; it is in `base`, like every base class of weft."""

from weft.embeddings.base import Embeddings

__all__ = ["Embeddings"]
