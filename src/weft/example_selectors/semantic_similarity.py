"""Selectors that ask a vector store for the examples nearest to the input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

from pydantic import BaseModel, ConfigDict

from weft._drive import drive
from weft._io import ASYNC, BLOCKING, IO
from weft.documents.base import Document
from weft.example_selectors.base import BaseExampleSelector
from weft.protocol.blocks import Json

__all__ = [
    "MaxMarginalRelevanceExampleSelector",
    "SemanticSimilarityExampleSelector",
    "sorted_values",
]


def sorted_values(values: Mapping[str, Json]) -> list[Json]:
    """Give the values in the order of their keys."""
    return [values[key] for key in sorted(values)]


@runtime_checkable
class ExampleStore(Protocol):
    """What a vector store must do to hold examples; `weft.vectorstores` are a layer above."""

    def add_texts(
        self, texts: list[str], metadatas: list[dict[str, Any]] | None = None
    ) -> list[str]: ...
    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]: ...


class _VectorStoreExampleSelector(BaseExampleSelector, BaseModel, ABC):
    """Keeps examples in a vector store: the text is their values, the example itself is the metadata."""

    vectorstore: ExampleStore
    """Where the examples are."""
    k: int = 4
    """How many are chosen."""
    example_keys: list[str] | None = None
    """The keys of an example that are shown; all if None."""
    input_keys: list[str] | None = None
    """The variables that are compared; all if None."""
    vectorstore_kwargs: dict[str, Any] | None = None
    """Options for the search."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    async def _add(self, example: dict[str, str], io: IO) -> str:
        add = self.vectorstore.add_texts if io.blocking else _twin(self.vectorstore, "add_texts")
        ids = await io.call(add, [self._text(example)], metadatas=[example])
        return str(ids[0])

    def add_example(self, example: dict[str, str]) -> str:
        """Take one more example into the store; give its id."""
        return drive(self._add(example, BLOCKING))

    async def aadd_example(self, example: dict[str, str]) -> str:
        """Take one more example into the store; give its id."""
        return await self._add(example, ASYNC)

    @abstractmethod
    def _search(self) -> tuple[str, dict[str, Any]]:
        """Say which search of the store to use, with which options."""

    async def _select(self, values: dict[str, str], io: IO) -> list[dict[str, Any]]:
        name, options = self._search()
        search = getattr(self.vectorstore, name) if io.blocking else _twin(self.vectorstore, name)
        documents = await io.call(
            search, self._text(values), **options, **(self.vectorstore_kwargs or {})
        )
        return [self._example(document) for document in documents]

    def select_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Choose the examples for these variables."""
        return drive(self._select(input_variables, BLOCKING))

    async def aselect_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Choose the examples for these variables."""
        return await self._select(input_variables, ASYNC)

    def _text(self, values: Mapping[str, Json]) -> str:
        if self.input_keys:
            values = {key: values[key] for key in self.input_keys}
        return " ".join(str(value) for value in sorted_values(values))

    def _example(self, document: Document) -> dict[str, Any]:
        example = dict(document.metadata)
        if self.example_keys:
            return {key: example[key] for key in self.example_keys}
        return example

    @classmethod
    async def _made(
        cls,
        examples: Sequence[dict[str, str]],
        embeddings: Json,
        vectorstore_cls: Json,
        io: IO,
        store_options: dict[str, Any],
        options: dict[str, Any],
    ) -> Self:
        keys = options["input_keys"]
        texts = [
            " ".join(map(str, sorted_values({k: e[k] for k in keys} if keys else e)))
            for e in examples
        ]
        make = vectorstore_cls.from_texts if io.blocking else _twin(vectorstore_cls, "from_texts")
        store = await io.call(make, texts, embeddings, metadatas=list(examples), **store_options)
        return cls(vectorstore=store, **options)


def _twin(store: Json, name: str) -> Json:
    """Give the async twin of a store's method, or the method itself, which then runs in a thread."""
    return getattr(store, f"a{name}", None) or getattr(store, name)


class SemanticSimilarityExampleSelector(_VectorStoreExampleSelector):
    """Chooses the examples most like the input."""

    def _search(self) -> tuple[str, dict[str, Any]]:
        return "similarity_search", {"k": self.k}

    @classmethod
    def from_examples(
        cls,
        examples: list[dict[str, str]],
        embeddings: Json,
        vectorstore_cls: Json,
        k: int = 4,
        input_keys: list[str] | None = None,
        *,
        example_keys: list[str] | None = None,
        vectorstore_kwargs: dict[str, Any] | None = None,
        **vectorstore_cls_kwargs: Any,
    ) -> Self:
        """Put examples into a new store; options that are not ours are the store's."""
        options = _options(k, input_keys, example_keys, vectorstore_kwargs)
        return drive(
            cls._made(
                examples, embeddings, vectorstore_cls, BLOCKING, vectorstore_cls_kwargs, options
            )
        )

    @classmethod
    async def afrom_examples(
        cls,
        examples: list[dict[str, str]],
        embeddings: Json,
        vectorstore_cls: Json,
        k: int = 4,
        input_keys: list[str] | None = None,
        *,
        example_keys: list[str] | None = None,
        vectorstore_kwargs: dict[str, Any] | None = None,
        **vectorstore_cls_kwargs: Any,
    ) -> Self:
        """Put examples into a new store; options that are not ours are the store's."""
        options = _options(k, input_keys, example_keys, vectorstore_kwargs)
        return await cls._made(
            examples, embeddings, vectorstore_cls, ASYNC, vectorstore_cls_kwargs, options
        )


class MaxMarginalRelevanceExampleSelector(_VectorStoreExampleSelector):
    """Chooses examples like the input and unlike one another."""

    fetch_k: int = 20
    """How many are fetched to choose from."""

    def _search(self) -> tuple[str, dict[str, Any]]:
        return "max_marginal_relevance_search", {"k": self.k, "fetch_k": self.fetch_k}

    @classmethod
    def from_examples(
        cls,
        examples: list[dict[str, str]],
        embeddings: Json,
        vectorstore_cls: Json,
        k: int = 4,
        input_keys: list[str] | None = None,
        fetch_k: int = 20,
        example_keys: list[str] | None = None,
        vectorstore_kwargs: dict[str, Any] | None = None,
        **vectorstore_cls_kwargs: Any,
    ) -> Self:
        """Put examples into a new store; options that are not ours are the store's."""
        options = {**_options(k, input_keys, example_keys, vectorstore_kwargs), "fetch_k": fetch_k}
        return drive(
            cls._made(
                examples, embeddings, vectorstore_cls, BLOCKING, vectorstore_cls_kwargs, options
            )
        )

    @classmethod
    async def afrom_examples(
        cls,
        examples: list[dict[str, str]],
        embeddings: Json,
        vectorstore_cls: Json,
        *,
        k: int = 4,
        input_keys: list[str] | None = None,
        fetch_k: int = 20,
        example_keys: list[str] | None = None,
        vectorstore_kwargs: dict[str, Any] | None = None,
        **vectorstore_cls_kwargs: Any,
    ) -> Self:
        """Put examples into a new store; options that are not ours are the store's."""
        options = {**_options(k, input_keys, example_keys, vectorstore_kwargs), "fetch_k": fetch_k}
        return await cls._made(
            examples, embeddings, vectorstore_cls, ASYNC, vectorstore_cls_kwargs, options
        )


def _options(
    k: int,
    input_keys: list[str] | None,
    example_keys: list[str] | None,
    vectorstore_kwargs: dict[str, Any] | None,
) -> dict[str, Any]:
    return {
        "k": k,
        "input_keys": input_keys,
        "example_keys": example_keys,
        "vectorstore_kwargs": vectorstore_kwargs,
    }
