"""Retrievers: from a question to documents. By vectors: `foldline.vectorstores`; by words: `BM25Retriever`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

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
    from foldline.retrievers.document_compressors import (
        DocumentCompressorPipeline,
        EmbeddingsFilter,
        EmbeddingsRedundantFilter,
        LLMChainExtractor,
        LLMChainFilter,
        LongContextReorder,
    )
    from foldline.retrievers.ensemble import EnsembleRetriever
    from foldline.retrievers.merged import MergerRetriever, RePhraseQueryRetriever
    from foldline.retrievers.multi_query import MultiQueryRetriever
    from foldline.retrievers.multi_vector import MultiVectorRetriever, ParentDocumentRetriever
    from foldline.retrievers.query_constructor import AttributeInfo
    from foldline.retrievers.self_query import SelfQueryRetriever
    from foldline.retrievers.time_weighted import TimeWeightedVectorStoreRetriever

__all__ = [
    "AttributeInfo",
    "BM25Retriever",
    "BaseRetriever",
    "ContextualCompressionRetriever",
    "DocumentCompressorPipeline",
    "EmbeddingsFilter",
    "EmbeddingsRedundantFilter",
    "EnsembleRetriever",
    "LLMChainExtractor",
    "LLMChainFilter",
    "LangSmithRetrieverParams",
    "LongContextReorder",
    "MergerRetriever",
    "MultiQueryRetriever",
    "MultiVectorRetriever",
    "ParentDocumentRetriever",
    "RePhraseQueryRetriever",
    "RetrieverInput",
    "RetrieverLike",
    "RetrieverOutput",
    "RetrieverOutputLike",
    "SelfQueryRetriever",
    "TimeWeightedVectorStoreRetriever",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "BaseRetriever LangSmithRetrieverParams RetrieverInput RetrieverLike "
        "RetrieverOutput RetrieverOutputLike",
        ".bm25": "BM25Retriever",
        ".compression": "ContextualCompressionRetriever",
        ".ensemble": "EnsembleRetriever",
        ".multi_query": "MultiQueryRetriever",
        ".document_compressors": "DocumentCompressorPipeline EmbeddingsFilter "
        "EmbeddingsRedundantFilter LLMChainExtractor LLMChainFilter LongContextReorder",
        ".multi_vector": "MultiVectorRetriever ParentDocumentRetriever",
        ".self_query": "SelfQueryRetriever",
        ".time_weighted": "TimeWeightedVectorStoreRetriever",
        ".query_constructor": "AttributeInfo",
        ".merged": "MergerRetriever RePhraseQueryRetriever",
    },
)
