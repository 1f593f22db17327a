"""`SelfQueryRetriever`: a model turns the question into search words and a filter on the metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, Field

from foldline._run import Run
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.retrievers.base import BaseRetriever
from foldline.retrievers.query_constructor import AttributeInfo, load_query_constructor_runnable
from foldline.runnables.base import Runnable
from foldline.structured_query import (
    Comparator,
    Comparison,
    Operation,
    Operator,
    StructuredQuery,
    Visitor,
)
from foldline.vectorstores.base import VectorStore

__all__ = [
    "SelfQueryRetriever",
]

LOGICAL_OPERATORS = {Operator.AND: "$and", Operator.OR: "$or"}


class FoldlineTranslator(Visitor):
    """Translates a query into the filters of foldline's own vector stores (`foldline.vectorstores._filters`)."""

    allowed_operators: Sequence[Operator] | None = (Operator.AND, Operator.OR, Operator.NOT)
    allowed_comparators: Sequence[Comparator] | None = (
        Comparator.EQ,
        Comparator.NE,
        Comparator.GT,
        Comparator.GTE,
        Comparator.LT,
        Comparator.LTE,
        Comparator.IN,
        Comparator.NIN,
    )

    def visit_operation(self, operation: Operation) -> dict[str, Any]:
        """Translate filters joined by an operator."""
        self._validate_func(operation.operator)
        parts = [part.accept(self) for part in operation.arguments]
        if operation.operator == Operator.NOT:
            return {"$not": parts[0] if len(parts) == 1 else {"$and": parts}}
        return {LOGICAL_OPERATORS[operation.operator]: parts}

    def visit_comparison(self, comparison: Comparison) -> dict[str, Any]:
        """Translate one comparison."""
        self._validate_func(comparison.comparator)
        return {comparison.attribute: {f"${comparison.comparator.value}": comparison.value}}

    def visit_structured_query(
        self, structured_query: StructuredQuery
    ) -> tuple[str, dict[str, Any]]:
        """Translate a query into its search words and the options of the search."""
        options: dict[str, Any] = {}
        if structured_query.filter is not None:
            options["filter"] = structured_query.filter.accept(self)
        return structured_query.query, options


class SelfQueryRetriever(BaseRetriever):
    """Lets a model turn the question into search words and a metadata filter, and searches a store with them."""

    vectorstore: VectorStore
    """The store to search."""
    query_constructor: Runnable[Any, StructuredQuery] = Field(alias="llm_chain")
    """Takes `{"query": question}`, returns a structured query."""
    structured_query_translator: Visitor = Field(default_factory=FoldlineTranslator)
    """Translates filters for the store."""
    search_type: str = "similarity"
    """The kind of search: "similarity" or "mmr"."""
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Options of the search."""
    use_original_query: bool = False
    """Whether to search with the original question instead of the model's words."""
    verbose: bool = False

    model_config: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, populate_by_name=True
    )

    @classmethod
    def from_llm(
        cls,
        llm: Runnable[Any, Any],
        vectorstore: VectorStore,
        document_contents: str,
        metadata_field_info: Sequence[AttributeInfo | dict[str, Any]],
        structured_query_translator: Visitor | None = None,
        chain_kwargs: dict[str, Any] | None = None,
        enable_limit: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        use_original_query: bool = False,  # noqa: FBT001, FBT002
        **kwargs: Any,
    ) -> Self:
        """Make the retriever for a model; a store that is not foldline's needs a translator."""
        translator = structured_query_translator or _translator_of(vectorstore)
        options = {
            "allowed_comparators": translator.allowed_comparators or tuple(Comparator),
            "allowed_operators": translator.allowed_operators or tuple(Operator),
            "enable_limit": enable_limit,
            **(chain_kwargs or {}),
        }
        constructor = load_query_constructor_runnable(
            llm, document_contents, metadata_field_info, **options
        )
        return cls(
            vectorstore=vectorstore,
            query_constructor=constructor,
            structured_query_translator=translator,
            use_original_query=use_original_query,
            **kwargs,
        )

    async def _invoke_body(self, input: str, run: Run) -> list[Document]:
        structured_query = await self.query_constructor._step({"query": input}, run.child())
        search_words, options = self.structured_query_translator.visit_structured_query(
            structured_query
        )
        options = {**self.search_kwargs, **options}
        if structured_query.limit is not None:
            options["k"] = structured_query.limit
        store = self.vectorstore
        search = store.search if run.io.blocking else store.asearch
        query = input if self.use_original_query else search_words
        documents: list[Document] = await run.io.call(search, query, self.search_type, **options)
        return documents


def _translator_of(store: VectorStore) -> Visitor:
    if type(store).__module__.startswith("foldline."):
        return FoldlineTranslator()
    raise UsageError(
        f"Self query retriever with Vector Store type {type(store).__name__} not supported: "
        "pass a structured_query_translator that writes its filters"
    )
