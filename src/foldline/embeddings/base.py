"""`Embeddings`: what turns text into vectors.

An author writes the two blocking methods; awaited calls run them in a thread unless their twins are written too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from foldline._extensions import extension
from foldline._io import ASYNC
from foldline.utils.short_repr import short_repr

__all__ = ["Embeddings"]


class Embeddings(ABC):
    """Turns text into vectors."""

    __repr__ = short_repr

    @abstractmethod
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""

    @abstractmethod
    def embed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        vectors: list[list[float]] = await ASYNC.call(self.embed_documents, texts)
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""
        vector: list[float] = await ASYNC.call(self.embed_query, text)
        return vector

    def batch_job(self, inputs: object = None, **options: object) -> Any:  # noqa: ANN401  a `foldline.batches.BatchJob`
        """Embed many texts once each, in a store that survives the process; the options are `BatchOptions`."""
        return extension("batch_job")(self, inputs, **options)
