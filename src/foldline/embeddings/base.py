"""`Embeddings`: the base class of embedding models.

A subclass implements the two sync methods; the async methods run them in a thread unless they are overridden.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from foldline._extensions import extension
from foldline._io import ASYNC
from foldline.utils._short_repr import short_repr

__all__ = ["Embeddings"]


class Embeddings(ABC):
    """Converts text to vectors."""

    __repr__ = short_repr

    @abstractmethod
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""

    @abstractmethod
    def embed_query(self, text: str) -> list[float]:
        """Embed a search query."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        vectors: list[list[float]] = await ASYNC.call(self.embed_documents, texts)
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        """Embed a search query."""
        vector: list[float] = await ASYNC.call(self.embed_query, text)
        return vector

    def batch_job(self, inputs: object = None, **options: object) -> Any:  # noqa: ANN401  a `foldline.batches.BatchJob`
        """Return a job that embeds many texts once each, with a persistent store; the options are `BatchOptions`."""
        return extension("batch_job")(self, inputs, **options)
