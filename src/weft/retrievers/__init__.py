"""Retrievers: from a question to documents. By vectors: `weft.vectorstores`; by words: `BM25Retriever`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.retrievers.base import (
        BaseRetriever,
        LangSmithRetrieverParams,
        RetrieverInput,
        RetrieverLike,
        RetrieverOutput,
        RetrieverOutputLike,
    )
    from weft.retrievers.bm25 import BM25Retriever
    from weft.retrievers.compression import ContextualCompressionRetriever
    from weft.retrievers.ensemble import EnsembleRetriever
    from weft.retrievers.multi_query import MultiQueryRetriever

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

__getattr__ = lazily(
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
