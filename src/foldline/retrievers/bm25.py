"""`BM25Retriever`: finds documents by their words (Okapi BM25) with an inverted index.

A query reads only the documents that contain one of its words. Documents can be added and removed at any time: the
index stores word counts, and weights are computed for each query.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, cast
from uuid import uuid4

from pydantic import Field, PrivateAttr

from foldline._io import mutex
from foldline._run import Run
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.retrievers.base import BaseRetriever
from foldline.utils._signature import show_defaults

__all__ = [
    "BM25Retriever",
]

WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, case-folded."""
    return WORD.findall(text.casefold())


class BM25Retriever(BaseRetriever):
    """Finds documents by their words.

    ```python
    from foldline.retrievers import BM25Retriever

    retriever = BM25Retriever.from_texts(["The cat sleeps.", "A dog barks.", "Cats and dogs"], k=1)
    print(retriever.invoke("who barks?")[0].page_content)
    #> A dog barks.
    ```
    """

    k: int = Field(default=4, ge=0)
    """The most documents to return; documents without a word of the query are never returned."""
    k1: float = Field(default=1.5, ge=0)
    """How much repetitions of a word add to the score."""
    b: float = Field(default=0.75, ge=0, le=1)
    """How much long documents are penalised."""
    preprocess_func: Callable[[str], Iterable[str]] = words_of
    """Splits texts and queries into words."""

    _documents: dict[str, Document] = PrivateAttr(default_factory=dict)
    _counts: dict[str, Counter[str]] = PrivateAttr(default_factory=dict)
    _postings: dict[str, dict[str, int]] = PrivateAttr(default_factory=dict)
    _lengths: dict[str, int] = PrivateAttr(default_factory=dict)
    _total: int = PrivateAttr(default=0)
    _lock: Any = PrivateAttr(default_factory=mutex)

    @classmethod
    @show_defaults
    def from_texts(
        cls,
        texts: Iterable[str],
        metadatas: Iterable[dict[str, Any]] | None = None,
        ids: Iterable[str] | None = None,
        bm25_params: dict[str, float] | None = None,
        preprocess_func: Callable[[str], Iterable[str]] = words_of,
        **kwargs: object,
    ) -> Self:
        """Make a retriever over texts."""
        texts = list(texts)
        metadatas = [{} for _ in texts] if metadatas is None else list(metadatas)
        document_ids: list[str | None] = [None] * len(texts) if ids is None else list(ids)
        if not len(texts) == len(metadatas) == len(document_ids):
            raise UsageError(
                f"one metadata and one id per text: {len(texts)} texts, {len(metadatas)} metadatas, "
                f"{len(document_ids)} ids"
            )
        documents = [
            Document(text, metadata=metadata, id=id_)
            for text, metadata, id_ in zip(texts, metadatas, document_ids, strict=True)
        ]
        return cls.from_documents(
            documents, bm25_params=bm25_params, preprocess_func=preprocess_func, **kwargs
        )

    @classmethod
    @show_defaults
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        bm25_params: dict[str, float] | None = None,
        preprocess_func: Callable[[str], Iterable[str]] = words_of,
        **kwargs: object,
    ) -> Self:
        """Make a retriever over documents; `bm25_params` may set `k1` and `b`."""
        retriever = cls(preprocess_func=preprocess_func, **{**(bm25_params or {}), **kwargs})
        retriever.add_documents(list(documents))
        return retriever

    @property
    def docs(self) -> list[Document]:
        """The documents, in the order they were added."""
        return list(self._documents.values())

    def add_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[str]:
        """Add documents, or replace those with the same id; return their ids."""
        entries = [
            (document.id or str(uuid4()), document, Counter(self._words(document.page_content)))
            for document in documents
        ]
        with self._lock:
            for id_, document, counts in entries:
                self._remove(id_)
                self._insert(id_, document, counts)
        return [id_ for id_, _, _ in entries]

    def delete(self, ids: Sequence[str]) -> None:
        """Delete documents; unknown ids are ignored."""
        with self._lock:
            for id_ in ids:
                self._remove(id_)

    def scores(self, query: str) -> list[tuple[Document, float]]:
        """Return the best documents with their scores, best first; equal scores in the order of addition."""
        words = self._words(query)
        with self._lock:
            weights: dict[str, float] = {}
            for word, count in Counter(words).items():
                for id_, weight in self._weights(word):
                    weights[id_] = weights.get(id_, 0.0) + count * weight
            best_ids = heapq.nlargest(self.k, weights, key=weights.__getitem__)
            return [(self._documents[id_], weights[id_]) for id_ in best_ids]

    async def _invoke_body(self, input: str, run: Run) -> object:
        scored_documents = cast(
            "list[tuple[Document, float]]", await run.io.call(self.scores, input)
        )
        return [document for document, _ in scored_documents]

    def _words(self, text: str) -> list[str]:
        if not isinstance(text, str):
            raise UsageError(f"BM25Retriever searches for text, not {type(text).__name__}")
        return list(self.preprocess_func(text))

    def _weights(self, word: str) -> Iterable[tuple[str, float]]:
        postings = self._postings.get(word, {})
        document_count = len(self._documents)
        rarity = math.log1p((document_count - len(postings) + 0.5) / (len(postings) + 0.5))
        mean_length = self._total / document_count if self._total else 1.0
        for id_, count in postings.items():
            length_penalty = self.k1 * (1 - self.b + self.b * self._lengths[id_] / mean_length)
            yield id_, rarity * count * (self.k1 + 1) / (count + length_penalty)

    def _insert(self, id_: str, document: Document, counts: Counter[str]) -> None:
        self._documents[id_] = document
        self._counts[id_] = counts
        self._lengths[id_] = counts.total()
        self._total += counts.total()
        for word, count in counts.items():
            self._postings.setdefault(word, {})[id_] = count

    def _remove(self, id_: str) -> None:
        if id_ not in self._documents:
            return
        del self._documents[id_]
        self._total -= self._lengths.pop(id_)
        for word in self._counts.pop(id_):
            postings = self._postings[word]
            del postings[id_]
            if not postings:
                del self._postings[word]
