"""`BM25Retriever`: finds documents by their words (Okapi BM25), over an inverted index of our own.

A question touches only the documents that have one of its words. Documents can be added and removed at any time:
counts are kept, weights are worked out when asked.
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

__all__ = ["BM25Retriever", "words_of"]

WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Cut a text into words, without case."""
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
    """How many documents to give at most; documents without a word of the question are never given."""
    k1: float = Field(default=1.5, ge=0)
    """How much a word that comes often counts more."""
    b: float = Field(default=0.75, ge=0, le=1)
    """How much long documents are held back."""
    preprocess_func: Callable[[str], Iterable[str]] = words_of
    """Cuts texts and questions into words."""

    _documents: dict[str, Document] = PrivateAttr(default_factory=dict)
    _counts: dict[str, Counter[str]] = PrivateAttr(default_factory=dict)
    _postings: dict[str, dict[str, int]] = PrivateAttr(default_factory=dict)
    _lengths: dict[str, int] = PrivateAttr(default_factory=dict)
    _total: int = PrivateAttr(default=0)
    _lock: Any = PrivateAttr(default_factory=mutex)

    @classmethod
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
        names: list[str | None] = [None] * len(texts) if ids is None else list(ids)
        if not len(texts) == len(metadatas) == len(names):
            raise UsageError(
                f"one metadata and one id per text: {len(texts)} texts, {len(metadatas)} metadatas, {len(names)} ids"
            )
        documents = [
            Document(text, metadata=metadata, id=name)
            for text, metadata, name in zip(texts, metadatas, names, strict=True)
        ]
        return cls.from_documents(
            documents, bm25_params=bm25_params, preprocess_func=preprocess_func, **kwargs
        )

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        bm25_params: dict[str, float] | None = None,
        preprocess_func: Callable[[str], Iterable[str]] = words_of,
        **kwargs: object,
    ) -> Self:
        """Make a retriever over documents; `bm25_params` may set `k1` and `b`."""
        made = cls(preprocess_func=preprocess_func, **{**(bm25_params or {}), **kwargs})
        made.add_documents(list(documents))
        return made

    @property
    def docs(self) -> list[Document]:
        """The documents, in the order they were added."""
        return list(self._documents.values())

    def add_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[str]:
        """Add documents, or replace those with the same id; gives their ids."""
        counted = [
            (document.id or str(uuid4()), document, Counter(self._words(document.page_content)))
            for document in documents
        ]
        with self._lock:
            for name, document, counts in counted:
                self._remove(name)
                self._insert(name, document, counts)
        return [name for name, _, _ in counted]

    def delete(self, ids: Sequence[str]) -> None:
        """Forget documents; ids that are not there are ignored."""
        with self._lock:
            for name in ids:
                self._remove(name)

    def scores(self, query: str) -> list[tuple[Document, float]]:
        """Return the best documents with their weights, best first; equal ones in the order they were added."""
        words = self._words(query)
        with self._lock:
            weights: dict[str, float] = {}
            for word, times in Counter(words).items():
                for name, weight in self._weights(word):
                    weights[name] = weights.get(name, 0.0) + times * weight
            best = heapq.nlargest(self.k, weights, key=weights.__getitem__)
            return [(self._documents[name], weights[name]) for name in best]

    async def _invoke_body(self, input: Any, run: Run) -> object:
        found = cast("list[tuple[Document, float]]", await run.io.call(self.scores, input))
        return [document for document, _ in found]

    def _words(self, text: str) -> list[str]:
        if not isinstance(text, str):
            raise UsageError(f"BM25Retriever looks for text, not {type(text).__name__}")
        return list(self.preprocess_func(text))

    def _weights(self, word: str) -> Iterable[tuple[str, float]]:
        postings = self._postings.get(word, {})
        count = len(self._documents)
        rarity = math.log1p((count - len(postings) + 0.5) / (len(postings) + 0.5))
        mean = self._total / count if self._total else 1.0
        for name, times in postings.items():
            held_back = self.k1 * (1 - self.b + self.b * self._lengths[name] / mean)
            yield name, rarity * times * (self.k1 + 1) / (times + held_back)

    def _insert(self, name: str, document: Document, counts: Counter[str]) -> None:
        self._documents[name] = document
        self._counts[name] = counts
        self._lengths[name] = counts.total()
        self._total += counts.total()
        for word, times in counts.items():
            self._postings.setdefault(word, {})[name] = times

    def _remove(self, name: str) -> None:
        if name not in self._documents:
            return
        del self._documents[name]
        self._total -= self._lengths.pop(name)
        for word in self._counts.pop(name):
            postings = self._postings[word]
            del postings[name]
            if not postings:
                del self._postings[word]
