"""`EnsembleRetriever`: asks several retrievers at once and fuses their answers by rank.

Reciprocal rank fusion: a document is worth `weight / (c + rank)` in every list it is in. Only ranks count, so that
retrievers with different scores (vectors, words) can be fused.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from contextlib import aclosing
from typing import Any, Self

from pydantic import Field, model_validator

from foldline._run import Run
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.retrievers.base import BaseRetriever, RetrieverLike

__all__ = ["EnsembleRetriever"]


class EnsembleRetriever(BaseRetriever):
    """Fuses what several retrievers find.

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
    """Runnables from a question to documents; they are asked at the same time."""
    weights: list[float] = Field(default_factory=list)
    """How much each retriever counts; equal parts where none are given."""
    c: int = Field(default=60, ge=0)
    """The larger, the less the first places count more than the later ones."""
    id_key: str | None = None
    """The metadata key that tells whether two documents are the same; their text, if not given."""

    @model_validator(mode="after")
    def _weights_fit(self) -> Self:
        if not self.weights and self.retrievers:
            self.weights = [1 / len(self.retrievers)] * len(self.retrievers)
        if len(self.weights) != len(self.retrievers):
            raise ValueError(
                f"one weight per retriever: {len(self.retrievers)} retrievers, {len(self.weights)} weights"
            )
        return self

    async def _invoke_body(self, input: Any, run: Run) -> object:
        found: list[list[Document]] = [[] for _ in self.retrievers]

        async def ask(place: int) -> Any:
            return await self.retrievers[place]._step(input, run.child(f"retriever_{place + 1}"))

        outcomes = run.io.as_completed(
            ask, range(len(self.retrievers)), limit=run.max_concurrency or len(self.retrievers) or 1
        )
        async with aclosing(outcomes):
            async for place, documents, error in outcomes:
                if error is not None:
                    raise error
                found[place] = [_document(item) for item in documents]
        return self.weighted_reciprocal_rank(found)

    def weighted_reciprocal_rank(self, doc_lists: Sequence[Sequence[Document]]) -> list[Document]:
        """Fuse lists of documents, one per retriever, best first; of equal documents the first one stands."""
        if len(doc_lists) != len(self.weights):
            raise UsageError(
                f"one list per retriever: {len(self.weights)} retrievers, {len(doc_lists)} lists"
            )
        worth: dict[Hashable, float] = {}
        first: dict[Hashable, Document] = {}
        for documents, weight in zip(doc_lists, self.weights, strict=True):
            for rank, document in enumerate(documents, start=1):
                key = self._key(document)
                first.setdefault(key, document)
                worth[key] = worth.get(key, 0.0) + weight / (rank + self.c)
        return [first[key] for key in sorted(worth, key=worth.__getitem__, reverse=True)]

    def _key(self, document: Document) -> Hashable:
        if self.id_key is None:
            return document.page_content
        if self.id_key not in document.metadata:
            raise UsageError(
                f"a document has no {self.id_key!r} in its metadata, by which documents are told apart"
            )
        value = document.metadata[self.id_key]
        return value if isinstance(value, Hashable) else json.dumps(value, default=repr)


def _document(item: object) -> Document:
    return item if isinstance(item, Document) else Document(str(item))
