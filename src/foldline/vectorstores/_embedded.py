"""`EmbeddedVectorStore`: the behaviours of foldline's own stores, each written once for both colours.

A store brings four blocking operations on rows (`_keep`, `_drop`, `_get`, `_nearest`); this file embeds texts and
questions with a model of either colour, names documents, checks arguments and chooses diverse answers.
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
from foldline.vectorstores.base import Metadatas, Scored, VectorStore, as_documents
from foldline.vectorstores.filters import Filter
from foldline.vectorstores.utils import check_weight

if TYPE_CHECKING:
    from foldline.vectorstores._vectors import Floats

__all__ = ["EmbeddedVectorStore", "Hit"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A document found, its cosine with the question, and its vector where it was asked for."""

    document: Document
    score: float
    vector: Any = None


class EmbeddedVectorStore(VectorStore):
    """A store that embeds texts itself."""

    embedding: Embeddings

    # -- what a store brings; all of them may block

    @abstractmethod
    def _keep(self, documents: Sequence[Document], vectors: Floats) -> None:
        """Keep documents (each has its id, no two alike), replacing those with the same id: all or none."""

    @abstractmethod
    def _drop(self, ids: Sequence[str]) -> None:
        """Forget documents."""

    @abstractmethod
    def _get(self, ids: Sequence[str]) -> list[Document]:
        """Return the documents that are there, in the order of the ids."""

    @abstractmethod
    def _nearest(
        self, vector: Floats, k: int, filter: Filter | None, *, with_vectors: bool
    ) -> list[Hit]:
        """Return the k nearest documents that pass the filter, nearest first."""

    @abstractmethod
    def _dimension(self) -> int | None:
        """Return the numbers a vector has; None while there are none."""

    # -- the bodies

    async def _add(
        self, documents: Sequence[Document], ids: Sequence[str | None] | None, io: IO
    ) -> list[str]:
        named = _with_ids(documents, ids)
        if not named:
            return []
        last = {str(document.id): document for document in named}  # of one id the last one stands
        texts = [document.page_content for document in last.values()]
        model = self.embedding
        vectors = await io.call(
            model.embed_documents if io.blocking else model.aembed_documents, texts
        )
        await io.call(self._keep_checked, list(last.values()), vectors)
        return [str(document.id) for document in named]

    def _keep_checked(self, documents: list[Document], vectors: list[list[float]]) -> None:
        from foldline.vectorstores._vectors import as_rows  # noqa: PLC0415  NumPy is an extra

        if len(vectors) != len(documents):
            raise UsageError(
                f"{type(self.embedding).__name__} gave {len(vectors)} vectors for {len(documents)} texts"
            )
        what = f"{type(self.embedding).__name__}.embed_documents"
        self._keep(documents, as_rows(vectors, self._dimension(), what=what))

    async def _embed_query(self, query: str, io: IO) -> list[float]:
        if not isinstance(query, str):
            raise UsageError(f"a question is a text, not {type(query).__name__}")
        model = self.embedding
        vector: list[float] = await io.call(
            model.embed_query if io.blocking else model.aembed_query, query
        )
        return vector

    async def _hits(
        self, query: str | Sequence[float], k: int, filter: Filter | None, io: IO
    ) -> list[Hit]:
        if _count(k, "k") == 0:
            return []
        vector = await self._embed_query(query, io) if isinstance(query, str) else query
        found: list[Hit] = await io.call(self._find, vector, k, filter)
        return found

    def _find(
        self, vector: Sequence[float], k: int, filter: Filter | None, *, with_vectors: bool = False
    ) -> list[Hit]:
        from foldline.vectorstores._vectors import as_query  # noqa: PLC0415  NumPy is an extra

        query = as_query(vector, self._dimension())
        return self._nearest(query, k, filter, with_vectors=with_vectors)

    async def _diverse(
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
        if min(_count(k, "k"), _count(fetch_k, "fetch_k")) == 0:
            return []
        vector = await self._embed_query(query, io) if isinstance(query, str) else query

        def choose() -> list[Document]:
            from foldline.vectorstores._vectors import as_query, as_rows, diverse  # noqa: PLC0415

            hits = self._find(vector, fetch_k, filter, with_vectors=True)
            if not hits:
                return []
            rows = as_rows([hit.vector for hit in hits], None, what="the store")
            row = as_query(vector, rows.shape[1])
            return [
                hits[place].document for place in diverse(row, rows, count=k, weight=lambda_mult)
            ]

        chosen: list[Document] = await io.call(choose)
        return chosen

    # -- LangChain's surface

    @property
    def embeddings(self) -> Embeddings:
        """What makes the vectors."""
        return self.embedding

    def add_documents(
        self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any
    ) -> list[str]:
        """Add documents, or replace those with the same id; gives their ids."""
        return drive(self._add(documents, ids, BLOCKING))

    async def aadd_documents(
        self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any
    ) -> list[str]:
        """Add documents, or replace those with the same id; gives their ids."""
        return await self._add(documents, ids, ASYNC)

    def delete(self, ids: Sequence[str] | None = None, **kwargs: object) -> None:
        """Forget documents; ids that are not there are ignored."""
        self._drop(list(ids or ()))

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids; those that are not there are left out."""
        return self._get(list(ids))

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a question."""
        return _documents(drive(self._hits(query, k, filter, BLOCKING)))

    async def asimilarity_search(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a question."""
        return _documents(await self._hits(query, k, filter, ASYNC))

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> Scored:
        """Return the documents nearest to a question, with their cosines (1 is alike)."""
        return _scored(drive(self._hits(query, k, filter, BLOCKING)))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> Scored:
        """Return the documents nearest to a question, with their cosines (1 is alike)."""
        return _scored(await self._hits(query, k, filter, ASYNC))

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a vector."""
        return _documents(drive(self._hits(embedding, k, filter, BLOCKING)))

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a vector."""
        return _documents(await self._hits(embedding, k, filter, ASYNC))

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: object
    ) -> Scored:
        """Return the documents nearest to a vector, with their cosines (1 is alike)."""
        return _scored(drive(self._hits(embedding, k, filter, BLOCKING)))

    async def asimilarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: object
    ) -> Scored:
        """Return the documents nearest to a vector, with their cosines (1 is alike)."""
        return _scored(await self._hits(embedding, k, filter, ASYNC))

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
        """Return documents near to a question and different from each other, chosen from the `fetch_k` nearest."""
        return drive(
            self._diverse(
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
        """Return documents near to a question and different from each other, chosen from the `fetch_k` nearest."""
        return await self._diverse(
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
        """Return documents near to a vector and different from each other, chosen from the `fetch_k` nearest."""
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
        """Return documents near to a vector and different from each other, chosen from the `fetch_k` nearest."""
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
        """Make a store and add texts; what else is given goes to the constructor."""
        made = cls._build(embedding, kwargs)
        made.add_documents(as_documents(texts, metadatas, ids))
        return made

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
        """Make a store and add texts; what else is given goes to the constructor."""
        made: Self = await ASYNC.call(cls._build, embedding, kwargs)
        await made.aadd_documents(as_documents(texts, metadatas, ids))
        return made

    @classmethod
    @abstractmethod
    def _build(cls, embedding: Embeddings, given: dict[str, Any]) -> Self:
        """Make an empty store, or open one."""


def _with_ids(documents: Iterable[Document], ids: Sequence[str | None] | None) -> list[Document]:
    documents = list(documents)
    if ids is not None and len(ids) != len(documents):
        raise UsageError(f"one id per document: got {len(ids)} ids and {len(documents)} documents")
    named = []
    for place, document in enumerate(documents):
        if not isinstance(document, Document):
            raise UsageError(
                f"a store holds documents, not {type(document).__name__}: see add_texts"
            )
        name = (ids[place] if ids is not None else None) or document.id or str(uuid4())
        named.append(
            document if document.id == name else document.model_copy(update={"id": str(name)})
        )
    return named


def _count(number: object, name: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise UsageError(f"{name} is a whole number, at least 0, not {number!r}")
    return number


def _documents(hits: list[Hit]) -> list[Document]:
    return [hit.document for hit in hits]


def _scored(hits: list[Hit]) -> Scored:
    return [(hit.document, hit.score) for hit in hits]
