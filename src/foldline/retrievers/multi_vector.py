"""Retrievers that search small pieces and return whole documents: `MultiVectorRetriever`, `ParentDocumentRetriever`."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, Self
from uuid import uuid4

from pydantic import ConfigDict, Field, model_validator

from foldline._run import Run
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.retrievers.base import BaseRetriever
from foldline.stores.base import BaseStore
from foldline.stores.documents import create_kv_docstore
from foldline.text_splitters.base import TextSplitter
from foldline.vectorstores.base import VectorStore

__all__ = ["MultiVectorRetriever", "ParentDocumentRetriever", "SearchType"]


class SearchType(str, Enum):  # noqa: UP042  str() must show the member, as LangChain's does
    """How the pieces are searched."""

    similarity = "similarity"
    similarity_score_threshold = "similarity_score_threshold"
    mmr = "mmr"


class MultiVectorRetriever(BaseRetriever):
    """Searches pieces (summaries, questions, parts) and returns the documents that they belong to.

    ```python
    from foldline.documents import Document
    from foldline.embeddings import DeterministicFakeEmbedding
    from foldline.retrievers import MultiVectorRetriever
    from foldline.stores import InMemoryStore
    from foldline.vectorstores import InMemoryVectorStore

    pieces = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    pieces.add_documents([Document("a summary", metadata={"doc_id": "1"})])
    documents = InMemoryStore()
    documents.mset([("1", Document("the whole text"))])
    retriever = MultiVectorRetriever(vectorstore=pieces, docstore=documents)
    print(retriever.invoke("a summary")[0].page_content)
    #> the whole text
    ```
    """

    vectorstore: VectorStore
    """The store of the pieces."""
    docstore: BaseStore[str, Any]
    """The store of the documents, by id; a `byte_store` may be passed instead."""
    id_key: str = "doc_id"
    """The metadata key of a piece that names its document."""
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Options of the search for pieces."""
    search_type: SearchType = SearchType.similarity
    """How pieces are searched."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _read_byte_store(cls, values: object) -> object:
        if not isinstance(values, dict) or values.get("docstore") is not None:
            return values
        values = dict(values)
        if values.get("byte_store") is None:
            raise UsageError(f"{cls.__name__} needs a docstore or a byte_store")
        values["docstore"] = create_kv_docstore(values.pop("byte_store"))
        return values

    async def _invoke_body(self, input: str, run: Run) -> list[Document]:
        pieces = await self._search_pieces(input, run)
        ids = list(
            dict.fromkeys(
                piece.metadata[self.id_key] for piece in pieces if self.id_key in piece.metadata
            )
        )
        store = self.docstore
        documents = await run.io.call(store.mget if run.io.blocking else store.amget, ids)
        return [document for document in documents if document is not None]

    async def _search_pieces(self, query: str, run: Run) -> list[Document]:
        store, is_sync = self.vectorstore, run.io.blocking
        if self.search_type == SearchType.mmr:
            method: Any = (
                store.max_marginal_relevance_search
                if is_sync
                else store.amax_marginal_relevance_search
            )
        elif self.search_type == SearchType.similarity_score_threshold:
            method = (
                store.similarity_search_with_relevance_scores
                if is_sync
                else store.asimilarity_search_with_relevance_scores
            )
        else:
            method = store.similarity_search if is_sync else store.asimilarity_search
        results = await run.io.call(method, query, **self.search_kwargs)
        return [result[0] if isinstance(result, tuple) else result for result in results]


class ParentDocumentRetriever(MultiVectorRetriever):
    """Searches small pieces of documents, and returns the documents or larger pieces of them."""

    child_splitter: TextSplitter
    """Makes the pieces that are searched."""
    parent_splitter: TextSplitter | None = None
    """Makes the pieces that are returned; None: whole documents are returned."""
    child_metadata_fields: list[str] | None = None
    """Which metadata the small pieces keep; None keeps all."""

    @model_validator(mode="after")
    def _check_search(self) -> Self:
        allowed = {member.value for member in SearchType}
        if str(getattr(self.search_type, "value", self.search_type)) not in allowed:
            raise ValueError(f"search_type is one of {sorted(allowed)}")
        return self

    def add_documents(
        self,
        documents: list[Document],
        ids: list[str] | None = None,
        add_to_docstore: bool = True,  # noqa: FBT001, FBT002  LangChain's signature
        **kwargs: Any,
    ) -> None:
        """Split documents; store the small pieces, and the documents or larger pieces."""
        pieces, parents = self._split(documents, ids, add_to_docstore=add_to_docstore)
        self.vectorstore.add_documents(pieces, **kwargs)
        if add_to_docstore:
            self.docstore.mset(parents)

    async def aadd_documents(
        self,
        documents: list[Document],
        ids: list[str] | None = None,
        add_to_docstore: bool = True,  # noqa: FBT001, FBT002  LangChain's signature
        **kwargs: Any,
    ) -> None:
        """Split documents; store the small pieces, and the documents or larger pieces."""
        pieces, parents = self._split(documents, ids, add_to_docstore=add_to_docstore)
        await self.vectorstore.aadd_documents(pieces, **kwargs)
        if add_to_docstore:
            await self.docstore.amset(parents)

    def _split(
        self, documents: list[Document], ids: list[str] | None, *, add_to_docstore: bool
    ) -> tuple[list[Document], list[tuple[str, Document]]]:
        if self.parent_splitter is not None:
            documents = self.parent_splitter.split_documents(documents)
        if ids is None:
            if not add_to_docstore:
                raise ValueError("If ids are not passed in, `add_to_docstore` MUST be True")
            ids = [str(uuid4()) for _ in documents]
        elif len(ids) != len(documents):
            raise ValueError(
                f"Got uneven list of documents and ids: {len(documents)} documents, {len(ids)} ids"
            )
        pieces: list[Document] = []
        for document, id_ in zip(documents, ids, strict=True):
            for piece in self.child_splitter.split_documents([document]):
                piece_metadata = piece.metadata
                if self.child_metadata_fields is not None:
                    piece_metadata = {
                        key: piece_metadata[key]
                        for key in self.child_metadata_fields
                        if key in piece_metadata
                    }
                metadata = {**piece_metadata, self.id_key: id_}
                pieces.append(Document(piece.page_content, metadata=metadata))
        return pieces, list(zip(ids, documents, strict=True))
