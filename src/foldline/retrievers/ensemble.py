"""`EnsembleRetriever`: asks several retrievers concurrently and fuses their results by rank.

Reciprocal rank fusion: a document scores `weight / (c + rank)` for every list it is in. Only ranks count, so that
retrievers with different scores (vectors, words) can be fused.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from contextlib import aclosing
from typing import Self

from pydantic import Field, model_validator

from foldline._run import Run
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.retrievers.base import BaseRetriever, RetrieverLike

__all__ = ["EnsembleRetriever"]


class EnsembleRetriever(BaseRetriever):
    """Fuses the results of several retrievers.

    ```python
    from foldline.retrievers import BM25Retriever, EnsembleRetriever

    animals = BM25Retriever.from_texts(["a cat", "a dog"])
    noises = BM25Retriever.from_texts(["a dog barks", "a dog"])
    both = EnsembleRetriever(retrievers=[animals, noises], weights=[0.5, 0.5])
    print([document.page_content for document in both.invoke("dog")])
    #> ['a dog', 'a dog barks']
    ```
    """

    retrievers: list[RetrieverLike]
    """Runnables from a question to documents; they run concurrently."""
    weights: list[float] = Field(default_factory=list)
    """The weight of each retriever; by default all are equal."""
    c: int = Field(default=60, ge=0)
    """The larger, the smaller the difference between first and later ranks."""
    id_key: str | None = None
    """The metadata key that identifies a document; None: the text identifies it."""

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if not self.weights and self.retrievers:
            self.weights = [1 / len(self.retrievers)] * len(self.retrievers)
        if len(self.weights) != len(self.retrievers):
            raise ValueError(
                f"one weight per retriever: {len(self.retrievers)} retrievers, {len(self.weights)} weights"
            )
        return self

    async def _invoke_body(self, input: str, run: Run) -> object:
        results: list[list[Document]] = [[] for _ in self.retrievers]

        async def ask(index: int) -> object:
            return await self.retrievers[index]._step(input, run.child(f"retriever_{index + 1}"))

        outcomes = run.io.as_completed(
            ask, range(len(self.retrievers)), limit=run.max_concurrency or len(self.retrievers) or 1
        )
        async with aclosing(outcomes):
            async for index, documents, error in outcomes:
                if error is not None:
                    raise error
                results[index] = [_document(item) for item in documents]
        return self.weighted_reciprocal_rank(results)

    def weighted_reciprocal_rank(self, doc_lists: Sequence[Sequence[Document]]) -> list[Document]:
        """Fuse lists of documents, one per retriever, best first; of equal documents the first is returned."""
        if len(doc_lists) != len(self.weights):
            raise UsageError(
                f"one list per retriever: {len(self.weights)} retrievers, {len(doc_lists)} lists"
            )
        scores: dict[Hashable, float] = {}
        documents_by_key: dict[Hashable, Document] = {}
        for documents, weight in zip(doc_lists, self.weights, strict=True):
            for rank, document in enumerate(documents, start=1):
                key = self._key(document)
                documents_by_key.setdefault(key, document)
                scores[key] = scores.get(key, 0.0) + weight / (rank + self.c)
        return [
            documents_by_key[key] for key in sorted(scores, key=scores.__getitem__, reverse=True)
        ]

    def _key(self, document: Document) -> Hashable:
        if self.id_key is None:
            return document.page_content
        if self.id_key not in document.metadata:
            raise UsageError(
                f"a document has no {self.id_key!r} in its metadata, which id_key says identifies it"
            )
        value = document.metadata[self.id_key]
        return value if isinstance(value, Hashable) else json.dumps(value, default=repr)


def _document(item: object) -> Document:
    return item if isinstance(item, Document) else Document(str(item))
