"""Retrievers: from a question to documents. By vectors: `foldline.vectorstores`; by words: `BM25Retriever`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazily

if TYPE_CHECKING:
    from foldline.retrievers.base import (
        BaseRetriever,
        LangSmithRetrieverParams,
        RetrieverInput,
        RetrieverLike,
        RetrieverOutput,
        RetrieverOutputLike,
    )
    from foldline.retrievers.bm25 import BM25Retriever
    from foldline.retrievers.compression import ContextualCompressionRetriever
    from foldline.retrievers.ensemble import EnsembleRetriever
    from foldline.retrievers.multi_query import MultiQueryRetriever

__all__ = [
    "BM25Retriever",
    "BaseRetriever",
    "ContextualCompressionRetriever",
    "EnsembleRetriever",
    "LangSmithRetrieverParams",
    "MultiQueryRetriever",
    "RetrieverInput",
    "RetrieverLike",
    "RetrieverOutput",
    "RetrieverOutputLike",
]

__getattr__: Loader = lazily(
    __name__,
    {
        ".base": "BaseRetriever LangSmithRetrieverParams RetrieverInput RetrieverLike "
        "RetrieverOutput RetrieverOutputLike",
        ".bm25": "BM25Retriever",
        ".compression": "ContextualCompressionRetriever",
        ".ensemble": "EnsembleRetriever",
        ".multi_query": "MultiQueryRetriever",
    },
)
