"""Selectors that search a vector store for the examples nearest to the input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from pydantic import BaseModel, ConfigDict

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.documents.base import Document
from foldline.embeddings.base import Embeddings
from foldline.example_selectors.base import BaseExampleSelector

__all__ = [
    "MaxMarginalRelevanceExampleSelector",
    "SemanticSimilarityExampleSelector",
    "sorted_values",
]


def sorted_values(values: Mapping[str, Any]) -> list[Any]:
    """Return the values in the order of their keys."""
    return [values[key] for key in sorted(values)]


@runtime_checkable
class ExampleStore(Protocol):
    """The methods of a vector store that selectors use; `foldline.vectorstores` is a layer above."""

    def add_texts(
        self, texts: list[str], metadatas: list[dict[str, Any]] | None = None
    ) -> list[str]: ...
    def similarity_search(self, query: str, k: int = 4, **kwargs: object) -> list[Document]: ...


class ExampleStoreClass(Protocol):
    """A class of stores with a `from_texts` constructor."""

    def from_texts(
        self,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> object:
        """Make a store of texts."""


class _VectorStoreExampleSelector(BaseExampleSelector, BaseModel, ABC):
    """Keeps examples in a vector store: the text is the values of an example, the metadata is the example."""

    vectorstore: ExampleStore
    """The store of the examples."""
    k: int = 4
    """How many examples to select."""
    example_keys: list[str] | None = None
    """The keys of an example that are returned; all if None."""
    input_keys: list[str] | None = None
    """The variables that are compared; all if None."""
    vectorstore_kwargs: dict[str, Any] | None = None
    """Options for the search."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    async def _add(self, example: dict[str, str], io: IO) -> str:
        add = (
            self.vectorstore.add_texts
            if io.blocking
            else _async_method(self.vectorstore, "add_texts")
        )
        ids = await io.call(add, [_text(example, self.input_keys)], metadatas=[example])
        return str(ids[0])

    def add_example(self, example: dict[str, str]) -> str:
        """Add an example to the store; return its id."""
        return drive(self._add(example, BLOCKING))

    async def aadd_example(self, example: dict[str, str]) -> str:
        """Add an example to the store; return its id."""
        return await self._add(example, ASYNC)

    @abstractmethod
    def _search(self) -> tuple[str, dict[str, Any]]:
        """Return the name of the store's search method, and its options."""

    async def _select(self, values: dict[str, str], io: IO) -> list[dict[str, Any]]:
        name, options = self._search()
        search = (
            getattr(self.vectorstore, name)
            if io.blocking
            else _async_method(self.vectorstore, name)
        )
        documents = await io.call(
            search, _text(values, self.input_keys), **options, **(self.vectorstore_kwargs or {})
        )
        return [self._example(document) for document in documents]

    def select_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Return the examples for these variables."""
        return drive(self._select(input_variables, BLOCKING))

    async def aselect_examples(self, input_variables: dict[str, str]) -> list[dict[str, Any]]:
        """Return the examples for these variables."""
        return await self._select(input_variables, ASYNC)

    def _example(self, document: Document) -> dict[str, Any]:
        example = dict(document.metadata)
        if self.example_keys:
            return {key: example[key] for key in self.example_keys}
        return example

    # -- constructors

    @classmethod
    def from_examples(
        cls,
        examples: list[dict[str, str]],
        embeddings: Embeddings,
        vectorstore_cls: ExampleStoreClass,
        k: int = 4,
        input_keys: list[str] | None = None,
        **options: Any,
    ) -> Self:
        """Put examples into a new store; options that are not fields of the selector are passed to the store."""
        options |= {"k": k, "input_keys": input_keys}
        return drive(cls._build(examples, embeddings, vectorstore_cls, BLOCKING, options))

    @classmethod
    async def afrom_examples(
        cls,
        examples: list[dict[str, str]],
        embeddings: Embeddings,
        vectorstore_cls: ExampleStoreClass,
        k: int = 4,
        input_keys: list[str] | None = None,
        **options: Any,
    ) -> Self:
        """Put examples into a new store; options that are not fields of the selector are passed to the store."""
        options |= {"k": k, "input_keys": input_keys}
        return await cls._build(examples, embeddings, vectorstore_cls, ASYNC, options)

    @classmethod
    async def _build(
        cls,
        examples: Sequence[dict[str, str]],
        embeddings: Embeddings,
        vectorstore_cls: ExampleStoreClass,
        io: IO,
        options: dict[str, Any],
    ) -> Self:
        fields = {name: value for name, value in options.items() if name in cls.model_fields}
        store_options = {name: value for name, value in options.items() if name not in fields}
        texts = [_text(example, fields["input_keys"]) for example in examples]
        make = (
            vectorstore_cls.from_texts
            if io.blocking
            else _async_method(vectorstore_cls, "from_texts")
        )
        store = await io.call(make, texts, embeddings, metadatas=list(examples), **store_options)
        return cls(vectorstore=store, **fields)


def _text(values: Mapping[str, Any], keys: list[str] | None) -> str:
    """Return the text of an example or input that is compared."""
    compared = {key: values[key] for key in keys} if keys else values
    return " ".join(str(value) for value in sorted_values(compared))


def _async_method(store: object, name: str) -> Callable[..., Any]:
    """Return the async form of a store's method, or the sync method, which then runs in a thread."""
    method: Callable[..., Any] = getattr(store, f"a{name}", None) or getattr(store, name)
    return method


class SemanticSimilarityExampleSelector(_VectorStoreExampleSelector):
    """Chooses the examples most like the input."""

    def _search(self) -> tuple[str, dict[str, Any]]:
        return "similarity_search", {"k": self.k}


class MaxMarginalRelevanceExampleSelector(_VectorStoreExampleSelector):
    """Chooses examples that are like the input and unlike one another."""

    fetch_k: int = 20
    """How many examples are fetched to choose from."""

    def _search(self) -> tuple[str, dict[str, Any]]:
        return "max_marginal_relevance_search", {"k": self.k, "fetch_k": self.fetch_k}

    @classmethod
    def from_examples(
        cls,
        examples: list[dict[str, str]],
        embeddings: Embeddings,
        vectorstore_cls: ExampleStoreClass,
        k: int = 4,
        input_keys: list[str] | None = None,
        fetch_k: int = 20,
        **options: Any,
    ) -> Self:
        """Put examples into a new store; options that are not fields of the selector are passed to the store."""
        options["fetch_k"] = fetch_k  # LangChain takes it by position in this constructor only
        return super().from_examples(
            examples, embeddings, vectorstore_cls, k, input_keys, **options
        )
