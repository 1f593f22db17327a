"""`EmbeddedVectorStore`: the base of foldline's stores, with one body for sync and async calls.

A store implements blocking operations on rows (`_upsert`, `_remove`, `_get`, `_nearest`); this class embeds texts and
queries with a sync or async model, assigns ids, checks arguments and selects diverse results.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.documents.base import Document
from foldline.embeddings.base import Embeddings
from foldline.exceptions import UsageError
from foldline.vectorstores._filters import Filter
from foldline.vectorstores.base import Metadatas, Scored, VectorStore, as_documents
from foldline.vectorstores.utils import check_weight

if TYPE_CHECKING:
    from foldline.vectorstores._vectors import Floats

__all__ = ["EmbeddedVectorStore", "Hit"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: the document, its cosine similarity to the query, and its vector if requested."""

    document: Document
    score: float
    vector: Any = None


class EmbeddedVectorStore(VectorStore):
    """A store that embeds texts."""

    embedding: Embeddings

    # -- what a store implements; all of these may block

    @abstractmethod
    def _upsert(self, documents: Sequence[Document], vectors: Floats) -> None:
        """Store documents with distinct ids, replacing those with the same id; all of them or none."""

    @abstractmethod
    def _remove(self, ids: Sequence[str]) -> None:
        """Delete documents."""

    @abstractmethod
    def _get(self, ids: Sequence[str]) -> list[Document]:
        """Return the documents that exist, in the order of the ids."""

    @abstractmethod
    def _nearest(
        self, vector: Floats, k: int, filter: Filter | None, *, with_vectors: bool
    ) -> list[Hit]:
        """Return the k nearest documents that pass the filter, nearest first."""

    @abstractmethod
    def _dimension(self) -> int | None:
        """Return the size of the vectors; None while the store is empty."""

    # -- the bodies

    async def _add(
        self, documents: Sequence[Document], ids: Sequence[str | None] | None, io: IO
    ) -> list[str]:
        with_ids = _with_ids(documents, ids)
        if not with_ids:
            return []
        # Of several documents with the same id the last is stored.
        distinct = {str(document.id): document for document in with_ids}
        texts = [document.page_content for document in distinct.values()]
        model = self.embedding
        vectors = await io.call(
            model.embed_documents if io.blocking else model.aembed_documents, texts
        )
        await io.call(self._upsert_checked, list(distinct.values()), vectors)
        return [str(document.id) for document in with_ids]

    def _upsert_checked(self, documents: list[Document], vectors: list[list[float]]) -> None:
        from foldline.vectorstores._vectors import as_rows  # noqa: PLC0415  NumPy is an extra

        if len(vectors) != len(documents):
            raise UsageError(
                f"{type(self.embedding).__name__} returned {len(vectors)} vectors for {len(documents)} texts"
            )
        what = f"{type(self.embedding).__name__}.embed_documents"
        self._upsert(documents, as_rows(vectors, self._dimension(), what=what))

    async def _embed_query(self, query: str, io: IO) -> list[float]:
        if not isinstance(query, str):
            raise UsageError(f"a query must be text, not {type(query).__name__}")
        model = self.embedding
        vector: list[float] = await io.call(
            model.embed_query if io.blocking else model.aembed_query, query
        )
        return vector

    async def _search_hits(
        self, query: str | Sequence[float], k: int, filter: Filter | None, io: IO
    ) -> list[Hit]:
        if _check_count(k, "k") == 0:
            return []
        vector = await self._embed_query(query, io) if isinstance(query, str) else query
        hits: list[Hit] = await io.call(self._find_hits, vector, k, filter)
        return hits

    def _find_hits(
        self, vector: Sequence[float], k: int, filter: Filter | None, *, with_vectors: bool = False
    ) -> list[Hit]:
        from foldline.vectorstores._vectors import as_query  # noqa: PLC0415  NumPy is an extra

        query = as_query(vector, self._dimension())
        return self._nearest(query, k, filter, with_vectors=with_vectors)

    async def _search_diverse(
        self,
        query: str | Sequence[float],
        io: IO,
        *,
        k: int,
        fetch_k: int,
        lambda_mult: float,
        filter: Filter | None,
    ) -> list[Document]:
        check_weight(lambda_mult)
        if min(_check_count(k, "k"), _check_count(fetch_k, "fetch_k")) == 0:
            return []
        vector = await self._embed_query(query, io) if isinstance(query, str) else query

        def choose() -> list[Document]:
            from foldline.vectorstores._vectors import as_query, as_rows, diverse  # noqa: PLC0415

            hits = self._find_hits(vector, fetch_k, filter, with_vectors=True)
            if not hits:
                return []
            rows = as_rows([hit.vector for hit in hits], None, what="the store")
            row = as_query(vector, rows.shape[1])
            return [
                hits[place].document for place in diverse(row, rows, count=k, weight=lambda_mult)
            ]

        documents: list[Document] = await io.call(choose)
        return documents

    # -- LangChain's surface

    @property
    def embeddings(self) -> Embeddings:
        """The embedding model."""
        return self.embedding

    def add_documents(
        self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any
    ) -> list[str]:
        """Add documents, or replace those with the same id; return their ids."""
        return drive(self._add(documents, ids, BLOCKING))

    async def aadd_documents(
        self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any
    ) -> list[str]:
        """Add documents, or replace those with the same id; return their ids."""
        return await self._add(documents, ids, ASYNC)

    def delete(self, ids: Sequence[str] | None = None, **kwargs: object) -> None:
        """Delete documents; unknown ids are ignored."""
        self._remove(list(ids or ()))

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids; unknown ids are skipped."""
        return self._get(list(ids))

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a query."""
        return _documents(drive(self._search_hits(query, k, filter, BLOCKING)))

    async def asimilarity_search(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a query."""
        return _documents(await self._search_hits(query, k, filter, ASYNC))

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> Scored:
        """Return the documents nearest to a query, with their cosine similarities (1 is equal)."""
        return _scored(drive(self._search_hits(query, k, filter, BLOCKING)))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> Scored:
        """Return the documents nearest to a query, with their cosine similarities (1 is equal)."""
        return _scored(await self._search_hits(query, k, filter, ASYNC))

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a vector."""
        return _documents(drive(self._search_hits(embedding, k, filter, BLOCKING)))

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a vector."""
        return _documents(await self._search_hits(embedding, k, filter, ASYNC))

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: object
    ) -> Scored:
        """Return the documents nearest to a vector, with their cosine similarities (1 is equal)."""
        return _scored(drive(self._search_hits(embedding, k, filter, BLOCKING)))

    async def asimilarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: object
    ) -> Scored:
        """Return the documents nearest to a vector, with their cosine similarities (1 is equal)."""
        return _scored(await self._search_hits(embedding, k, filter, ASYNC))

    def max_marginal_relevance_search(
        self,
        query: str | list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents that are near a query and different from each other, chosen from the `fetch_k` nearest."""
        return drive(
            self._search_diverse(
                query, BLOCKING, k=k, fetch_k=fetch_k, lambda_mult=lambda_mult, filter=filter
            )
        )

    async def amax_marginal_relevance_search(
        self,
        query: str | list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents that are near a query and different from each other, chosen from the `fetch_k` nearest."""
        return await self._search_diverse(
            query, ASYNC, k=k, fetch_k=fetch_k, lambda_mult=lambda_mult, filter=filter
        )

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents that are near a vector and different from each other, chosen from the `fetch_k` nearest."""
        return self.max_marginal_relevance_search(embedding, k, fetch_k, lambda_mult, filter=filter)

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents that are near a vector and different from each other, chosen from the `fetch_k` nearest."""
        return await self.amax_marginal_relevance_search(
            embedding, k, fetch_k, lambda_mult, filter=filter
        )

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: min(1.0, max(0.0, cosine))

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: Metadatas = None,
        *,
        ids: list[str] | None = None,
        **kwargs: object,
    ) -> Self:
        """Make a store and add texts; other options are passed to the constructor."""
        store = cls._build(embedding, kwargs)
        store.add_documents(as_documents(texts, metadatas, ids))
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: Metadatas = None,
        *,
        ids: list[str] | None = None,
        **kwargs: object,
    ) -> Self:
        """Make a store and add texts; other options are passed to the constructor."""
        store: Self = await ASYNC.call(cls._build, embedding, kwargs)
        await store.aadd_documents(as_documents(texts, metadatas, ids))
        return store

    @classmethod
    @abstractmethod
    def _build(cls, embedding: Embeddings, options: dict[str, Any]) -> Self:
        """Make an empty store, or open one."""


def _with_ids(documents: Iterable[Document], ids: Sequence[str | None] | None) -> list[Document]:
    documents = list(documents)
    if ids is not None and len(ids) != len(documents):
        raise UsageError(f"one id per document: got {len(ids)} ids and {len(documents)} documents")
    with_ids = []
    for index, document in enumerate(documents):
        if not isinstance(document, Document):
            raise UsageError(
                f"a store holds documents, not {type(document).__name__}: see add_texts"
            )
        id_ = (ids[index] if ids is not None else None) or document.id or str(uuid4())
        with_ids.append(
            document if document.id == id_ else document.model_copy(update={"id": str(id_)})
        )
    return with_ids


def _check_count(number: object, name: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise UsageError(f"{name} must be an integer of at least 0, not {number!r}")
    return number


def _documents(hits: list[Hit]) -> list[Document]:
    return [hit.document for hit in hits]


def _scored(hits: list[Hit]) -> Scored:
    return [(hit.document, hit.score) for hit in hits]
