"""Retrievers: from a question to documents. By vectors: `weft.vectorstores`; by words: `BM25Retriever`."""

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
