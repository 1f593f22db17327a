"""Fake embeddings for tests: random, or deterministic. No model, no NumPy."""

from __future__ import annotations

import hashlib
import random

from pydantic import BaseModel, Field

from foldline.embeddings.base import Embeddings

__all__ = ["DeterministicFakeEmbedding", "FakeEmbeddings"]


class FakeEmbeddings(Embeddings, BaseModel):
    """Returns a new random vector for every text."""

    size: int = Field(ge=1)
    """The length of the vectors."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed a search query."""
        return _numbers(random.Random(), self.size)


class DeterministicFakeEmbedding(Embeddings, BaseModel):
    """Returns a pseudo-random vector that is always the same for the same text.

    ```python
    from foldline.embeddings import DeterministicFakeEmbedding

    fake = DeterministicFakeEmbedding(size=3)
    print(fake.embed_query("hello") == fake.embed_documents(["hello"])[0])
    #> True
    ```
    """

    size: int = Field(ge=1)
    """The length of the vectors."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed a search query."""
        seed = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return _numbers(random.Random(seed), self.size)


def _numbers(source: random.Random, count: int) -> list[float]:
    return [source.gauss(0.0, 1.0) for _ in range(count)]
