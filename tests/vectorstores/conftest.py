"""The four stores on real servers, and an embedding in which a text is its own vector: "3 4" is [3.0, 4.0]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from foldline.embeddings import Embeddings
from foldline.vectorstores import (
    InMemoryVectorStore,
    PostgresVectorStore,
    SQLiteVectorStore,
    VectorStore,
)
from tests.servers.databases import pgvector_server, postgres_server, postgres_url

__all__ = ["pgvector_server", "postgres_server", "postgres_url"]


class Plane(Embeddings):
    """A text is its own vector."""

    def __init__(self) -> None:
        self.modes: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.modes.append("sync")
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.modes.append("sync")
        return self._vector(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.modes.append("async")
        return [self._vector(text) for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        self.modes.append("async")
        return self._vector(text)

    @staticmethod
    def _vector(text: str) -> list[float]:
        return [float(number) for number in text.split()]


@pytest.fixture
def plane() -> Plane:
    return Plane()


Make = Callable[..., VectorStore]


@pytest.fixture(params=["memory", "sqlite", "postgres", "pgvector"])
def make(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Make]:
    """Make empty stores of one kind; those made by one test share nothing with another test's."""
    stores: list[Any] = []
    kind, name = request.param, f"test {uuid4()}"

    def make_store(embedding: Embeddings, collection: str = "one") -> VectorStore:
        if kind == "memory":
            return InMemoryVectorStore(embedding)
        if kind == "sqlite":
            store: Any = SQLiteVectorStore(embedding, tmp_path / "v.db", collection=collection)
        else:
            server = request.getfixturevalue(
                "pgvector_server" if kind == "pgvector" else "postgres_server"
            )
            store = PostgresVectorStore(embedding, server.url, collection=f"{name} {collection}")
            assert store.has_pgvector is (kind == "pgvector")
        stores.append(store)
        return store

    yield make_store
    for store in stores:
        store.close()


@pytest.fixture
def store(make: Make, plane: Plane) -> VectorStore:
    return make(plane)
