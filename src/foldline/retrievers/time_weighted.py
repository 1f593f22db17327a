"""`TimeWeightedVectorStoreRetriever`: brings what is near the question and was in use lately."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._run import Run
from foldline.documents.base import Document
from foldline.retrievers.base import BaseRetriever
from foldline.vectorstores.base import VectorStore

__all__ = ["TimeWeightedVectorStoreRetriever"]

PLACE, USED, MADE = "buffer_idx", "last_accessed_at", "created_at"
HOUR = timedelta(hours=1)
Scored = dict[int, tuple[Document, float | None]]
"""The place of a document -> the document, and how near it is."""


class TimeWeightedVectorStoreRetriever(BaseRetriever):
    """Adds to how near a document is how lately it was brought: `(1 - decay_rate) ** hours`, and keys of its metadata.

    What is brought counts as used, and the last documents that were added are always looked at.
    """

    vectorstore: VectorStore
    search_kwargs: dict[str, Any] = Field(default_factory=lambda: {"k": 100})
    """Options of the search in the store."""
    memory_stream: list[Document] = Field(default_factory=list)
    """All documents, in the order in which they were added."""
    decay_rate: float = 0.01
    """What a document loses in an hour in which it is not used."""
    k: int = 4
    """How many documents are brought."""
    other_score_keys: list[str] = Field(default_factory=list)
    """Keys of the metadata whose numbers are added, such as "importance"."""
    default_salience: float | None = None
    """How near a document counts that the store did not find."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    async def _invoke_body(self, input: str, run: Run) -> list[Document]:
        lately = self.memory_stream[-self.k :]
        scored: Scored = {
            document.metadata[PLACE]: (document, self.default_salience) for document in lately
        }
        scored |= await self._salient(input, run.io)
        now = datetime.now()
        ranked = sorted(
            scored.values(), key=lambda document: -self._score(document[0], document[1], now)
        )[: self.k]
        for document, _ in ranked:
            document.metadata[USED] = now
        return [document for document, _ in ranked]

    def get_salient_docs(self, query: str) -> Scored:
        """Return what the store finds for a question, with how near it is."""
        return drive(self._salient(query, BLOCKING))

    async def aget_salient_docs(self, query: str) -> Scored:
        """Return what the store finds for a question, with how near it is."""
        return await self._salient(query, ASYNC)

    async def _salient(self, query: str, io: IO) -> Scored:
        store = self.vectorstore
        search = (
            store.similarity_search_with_relevance_scores
            if io.blocking
            else store.asimilarity_search_with_relevance_scores
        )
        matches = await io.call(search, query, **self.search_kwargs)
        return {
            document.metadata[PLACE]: (self.memory_stream[document.metadata[PLACE]], score)
            for document, score in matches
            if PLACE in document.metadata
        }

    def _score(self, document: Document, relevance: float | None, now: datetime) -> float:
        used = document.metadata.get(USED, now)
        if isinstance(used, float):
            used = datetime.fromtimestamp(used)
        score: float = (1.0 - self.decay_rate) ** ((now - used) / HOUR)
        for key in self.other_score_keys:
            score += document.metadata.get(key) or 0
        return score + (relevance or 0)

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Keep documents; `current_time` says when they were made and used last."""
        return self.vectorstore.add_documents(self._remembered(documents, kwargs), **kwargs)

    async def aadd_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Keep documents; `current_time` says when they were made and used last."""
        return await self.vectorstore.aadd_documents(self._remembered(documents, kwargs), **kwargs)

    def _remembered(self, documents: list[Document], options: dict[str, Any]) -> list[Document]:
        now = options.pop("current_time", None) or datetime.now()
        copies = deepcopy(documents)
        for place, document in enumerate(copies, len(self.memory_stream)):
            document.metadata = {USED: now, MADE: now, **document.metadata, PLACE: place}
        self.memory_stream.extend(copies)
        return copies
