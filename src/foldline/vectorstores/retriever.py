"""`VectorStoreRetriever`: a vector store as a retriever. It accepts any object with the store's methods."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import ConfigDict, Field, model_validator

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.callbacks.manager import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from foldline.documents.base import Document
from foldline.retrievers.base import BaseRetriever, LangSmithRetrieverParams

__all__ = ["VectorStoreRetriever"]


class VectorStoreRetriever(BaseRetriever):
    """Searches a vector store."""

    vectorstore: Any
    """The `VectorStore`."""
    search_type: str = "similarity"
    """The kind of search: "similarity", "similarity_score_threshold" or "mmr"."""
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Options of the search: `k`, `filter`, `score_threshold`, `fetch_k`, `lambda_mult`, …"""

    allowed_search_types: ClassVar[tuple[str, ...]] = (
        "similarity",
        "similarity_score_threshold",
        "mmr",
    )
    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    @model_validator(mode="after")
    def _check_search(self) -> Self:
        if not callable(getattr(self.vectorstore, "similarity_search", None)):
            raise ValueError(f"vectorstore is a VectorStore, not {type(self.vectorstore).__name__}")
        if self.search_type not in self.allowed_search_types:
            raise ValueError(
                f"search_type is one of {', '.join(self.allowed_search_types)}, not {self.search_type!r}"
            )
        if self.search_type == "similarity_score_threshold":
            threshold = self.search_kwargs.get("score_threshold")
            if not isinstance(threshold, int | float) or isinstance(threshold, bool):
                raise ValueError(
                    "search_type 'similarity_score_threshold' needs search_kwargs={'score_threshold': 0.5} or the like"
                )
        return self

    def _get_ls_params(self, **kwargs: object) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        params["ls_vector_store_provider"] = type(self.vectorstore).__name__
        embeddings = self.vectorstore.embeddings
        if embeddings is not None:
            params["ls_embedding_provider"] = type(embeddings).__name__
            if isinstance(model := getattr(embeddings, "model", None), str):
                params["ls_embedding_model"] = model
        return params

    async def _search(self, query: str, io: IO, kwargs: dict[str, Any]) -> list[Document]:
        store = self.vectorstore
        options = {**self.search_kwargs, **kwargs}
        documents: list[Document] = await io.call(
            store.search if io.blocking else store.asearch, query, self.search_type, **options
        )
        return documents

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: object
    ) -> list[Document]:
        return drive(self._search(query, BLOCKING, kwargs))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: object
    ) -> list[Document]:
        return await self._search(query, ASYNC, kwargs)

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Add documents to the store."""
        new_ids: list[str] = self.vectorstore.add_documents(documents, **kwargs)
        return new_ids

    async def aadd_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Add documents to the store."""
        new_ids: list[str] = await self.vectorstore.aadd_documents(documents, **kwargs)
        return new_ids
