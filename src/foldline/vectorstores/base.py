"""`VectorStore`: the interface of vector stores, with LangChain's methods.

A subclass implements at least `from_texts`, `similarity_search` and one of `add_texts` and `add_documents`, which the
other one calls. An async method that is not implemented runs the sync method in a thread. foldline's stores implement
sync and async calls in one body: see `_embedded`.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Self, TypeVar

from foldline._io import ASYNC
from foldline.documents.base import Document
from foldline.embeddings.base import Embeddings
from foldline.exceptions import UsageError
from foldline.utils._short_repr import short_repr
from foldline.vectorstores.retriever import VectorStoreRetriever

__all__ = ["VST", "VectorStore", "VectorStoreRetriever"]

VST = TypeVar("VST", bound="VectorStore")
Scored = list[tuple[Document, float]]
Metadatas = list[dict[str, Any]] | None

logger: logging.Logger = logging.getLogger("foldline.vectorstores")


class VectorStore(ABC):
    """A store of documents that searches by vector similarity."""

    __repr__ = short_repr

    @property
    def embeddings(self) -> Embeddings | None:
        """The embedding model, if the store knows it."""
        return None

    # -- adding and deleting

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Metadatas = None,
        *,
        ids: list[str] | None = None,
        **kwargs: object,
    ) -> list[str]:
        """Add texts, or replace those with the same id; return their ids."""
        if type(self).add_documents is VectorStore.add_documents:
            self._raise_not_implemented("add_texts", "add_documents")
        return self.add_documents(as_documents(texts, metadatas, ids), **kwargs)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Metadatas = None,
        *,
        ids: list[str] | None = None,
        **kwargs: object,
    ) -> list[str]:
        """Add texts, or replace those with the same id; return their ids."""
        if type(self).aadd_documents is not VectorStore.aadd_documents:
            return await self.aadd_documents(as_documents(texts, metadatas, ids), **kwargs)
        id_option = {} if ids is None else {"ids": ids}
        new_ids: list[str] = await ASYNC.call(
            self.add_texts, texts, metadatas, **id_option, **kwargs
        )
        return new_ids

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Add documents, or replace those with the same id; return their ids."""
        if type(self).add_texts is VectorStore.add_texts:
            self._raise_not_implemented("add_documents", "add_texts")
        return self.add_texts(*as_texts(documents), **_with_ids(documents, kwargs))

    async def aadd_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Add documents, or replace those with the same id; return their ids."""
        if type(self).aadd_texts is not VectorStore.aadd_texts:
            return await self.aadd_texts(*as_texts(documents), **_with_ids(documents, kwargs))
        new_ids: list[str] = await ASYNC.call(self.add_documents, documents, **kwargs)
        return new_ids

    def delete(self, ids: list[str] | None = None, **kwargs: object) -> bool | None:
        """Delete documents."""
        self._raise_not_implemented("delete")

    async def adelete(self, ids: list[str] | None = None, **kwargs: object) -> bool | None:
        """Delete documents."""
        is_deleted: bool | None = await ASYNC.call(self.delete, ids, **kwargs)
        return is_deleted

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids; unknown ids are skipped."""
        self._raise_not_implemented("get_by_ids")

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids; unknown ids are skipped."""
        documents: list[Document] = await ASYNC.call(self.get_by_ids, ids)
        return documents

    @classmethod
    @abstractmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: Metadatas = None,
        *,
        ids: list[str] | None = None,
        **kwargs: object,
    ) -> Self:
        """Make a store and add texts."""

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
        """Make a store and add texts."""
        id_option = {} if ids is None else {"ids": ids}
        store: Self = await ASYNC.call(
            cls.from_texts, texts, embedding, metadatas, **id_option, **kwargs
        )
        return store

    @classmethod
    def from_documents(
        cls, documents: list[Document], embedding: Embeddings, **kwargs: object
    ) -> Self:
        """Make a store and add documents."""
        texts, metadatas = as_texts(documents)
        return cls.from_texts(texts, embedding, metadatas, **_with_ids(documents, kwargs))

    @classmethod
    async def afrom_documents(
        cls, documents: list[Document], embedding: Embeddings, **kwargs: object
    ) -> Self:
        """Make a store and add documents."""
        texts, metadatas = as_texts(documents)
        return await cls.afrom_texts(texts, embedding, metadatas, **_with_ids(documents, kwargs))

    # -- searching

    @abstractmethod
    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the documents nearest to a query."""

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the documents nearest to a query."""
        documents: list[Document] = await ASYNC.call(self.similarity_search, query, k=k, **kwargs)
        return documents

    def similarity_search_with_score(self, *args: Any, **kwargs: Any) -> Scored:
        """Return the documents nearest to a query, with the scores of the store."""
        self._raise_not_implemented("similarity_search_with_score")

    async def asimilarity_search_with_score(self, *args: Any, **kwargs: Any) -> Scored:
        """Return the documents nearest to a query, with the scores of the store."""
        scored: Scored = await ASYNC.call(self.similarity_search_with_score, *args, **kwargs)
        return scored

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a vector."""
        self._raise_not_implemented("similarity_search_by_vector")

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a vector."""
        documents: list[Document] = await ASYNC.call(
            self.similarity_search_by_vector, embedding, k=k, **kwargs
        )
        return documents

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents that are near a query and different from each other, chosen from the `fetch_k` nearest."""
        self._raise_not_implemented("max_marginal_relevance_search")

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents that are near a query and different from each other, chosen from the `fetch_k` nearest."""
        options = {"k": k, "fetch_k": fetch_k, "lambda_mult": lambda_mult, **kwargs}
        documents: list[Document] = await ASYNC.call(
            self.max_marginal_relevance_search, query, **options
        )
        return documents

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents that are near a vector and different from each other, chosen from the `fetch_k` nearest."""
        self._raise_not_implemented("max_marginal_relevance_search_by_vector")

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents that are near a vector and different from each other, chosen from the `fetch_k` nearest."""
        options = {"k": k, "fetch_k": fetch_k, "lambda_mult": lambda_mult, **kwargs}
        documents: list[Document] = await ASYNC.call(
            self.max_marginal_relevance_search_by_vector, embedding, **options
        )
        return documents

    def search(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """Search by `search_type`: similarity, similarity_score_threshold or mmr."""
        if search_type == "similarity":
            return self.similarity_search(query, **kwargs)
        if search_type == "similarity_score_threshold":
            scored = self.similarity_search_with_relevance_scores(query, **kwargs)
            return [document for document, _ in scored]
        if search_type == "mmr":
            return self.max_marginal_relevance_search(query, **kwargs)
        raise _unknown_search_type(search_type)

    async def asearch(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """Search by `search_type`: similarity, similarity_score_threshold or mmr."""
        if search_type == "similarity":
            return await self.asimilarity_search(query, **kwargs)
        if search_type == "similarity_score_threshold":
            scored = await self.asimilarity_search_with_relevance_scores(query, **kwargs)
            return [document for document, _ in scored]
        if search_type == "mmr":
            return await self.amax_marginal_relevance_search(query, **kwargs)
        raise _unknown_search_type(search_type)

    def as_retriever(self, **kwargs: object) -> VectorStoreRetriever:
        """Return a retriever over this store; `search_type` and `search_kwargs` configure its search."""
        tags = kwargs.pop("tags", None) or self._get_retriever_tags()
        return VectorStoreRetriever(vectorstore=self, tags=tags, **kwargs)

    def _get_retriever_tags(self) -> list[str]:
        tags = [type(self).__name__]
        if self.embeddings is not None:
            tags.append(type(self.embeddings).__name__)
        return tags

    # -- scores from 0 (different) to 1 (equal)

    def similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> Scored:
        """Return documents with scores from 0 to 1; those below `score_threshold` are left out."""
        threshold = kwargs.pop("score_threshold", None)
        scored = self._similarity_search_with_relevance_scores(query, k=k, **kwargs)
        return _apply_threshold(threshold, scored)

    async def asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> Scored:
        """Return documents with scores from 0 to 1; those below `score_threshold` are left out."""
        threshold = kwargs.pop("score_threshold", None)
        scored = await self._asimilarity_search_with_relevance_scores(query, k=k, **kwargs)
        return _apply_threshold(threshold, scored)

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: object
    ) -> Scored:
        relevance = self._select_relevance_score_fn()
        scored = self.similarity_search_with_score(query, k, **kwargs)
        return [(document, relevance(score)) for document, score in scored]

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: object
    ) -> Scored:
        relevance = self._select_relevance_score_fn()
        scored = await self.asimilarity_search_with_score(query, k, **kwargs)
        return [(document, relevance(score)) for document, score in scored]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        """Return the function from this store's scores to relevance, 0 to 1."""
        self._raise_not_implemented("_select_relevance_score_fn")

    @staticmethod
    def _euclidean_relevance_score_fn(distance: float) -> float:
        """Relevance of the distance between two unit vectors, which is at most the square root of two."""
        return 1.0 - distance / math.sqrt(2)

    @staticmethod
    def _cosine_relevance_score_fn(distance: float) -> float:
        """Relevance of a cosine distance."""
        return 1.0 - distance

    @staticmethod
    def _max_inner_product_relevance_score_fn(distance: float) -> float:
        """Relevance of an inner product."""
        return 1.0 - distance if distance > 0 else -1.0 * distance

    def _raise_not_implemented(self, *names: str) -> NoReturn:
        methods = " nor ".join(f"`{name}`" for name in names)
        problem = f"implements neither {methods}" if len(names) > 1 else f"has no {methods}"
        raise NotImplementedError(f"{type(self).__name__} {problem}")


def as_documents(
    texts: Iterable[str], metadatas: Sequence[dict[str, Any]] | None, ids: Sequence[str] | None
) -> list[Document]:
    """Make documents from texts; raise `UsageError` unless there is one metadata and one id for each."""
    texts = [texts] if isinstance(texts, str) else list(texts)
    if metadatas is not None and len(metadatas) != len(texts):
        raise UsageError(
            f"one metadata per text: got {len(metadatas)} metadatas and {len(texts)} texts"
        )
    if ids is not None and len(ids) != len(texts):
        raise UsageError(f"one id per text: got {len(ids)} ids and {len(texts)} texts")
    return [
        Document(
            text,
            metadata=(metadatas[index] if metadatas else None) or {},
            id=ids[index] if ids is not None else None,
        )
        for index, text in enumerate(texts)
    ]


def as_texts(documents: Iterable[Document]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the texts and the metadata of documents."""
    documents = list(documents)
    return (
        [document.page_content for document in documents],
        [document.metadata for document in documents],
    )


def _with_ids(documents: Sequence[Document], kwargs: dict[str, Any]) -> dict[str, Any]:
    if "ids" in kwargs or not any(document.id for document in documents):
        return kwargs
    return {**kwargs, "ids": [document.id for document in documents]}


def _apply_threshold(threshold: float | None, scored: Scored) -> Scored:
    if any(not 0.0 <= score <= 1.0 for _, score in scored):
        logger.warning("relevance scores must be between 0 and 1, got %s", [s for _, s in scored])
    if threshold is None:
        return scored
    return [(document, score) for document, score in scored if score >= threshold]


def _unknown_search_type(search_type: str) -> UsageError:
    return UsageError(
        f"search_type is similarity, similarity_score_threshold or mmr, not {search_type!r}"
    )
