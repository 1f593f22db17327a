"""Retrievers: from a question to documents. By vectors: `foldline.vectorstores`; by words: `BM25Retriever`."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.retrievers.base import (
        BaseRetriever as BaseRetriever,
        LangSmithRetrieverParams as LangSmithRetrieverParams,
        RetrieverInput as RetrieverInput,
        RetrieverLike as RetrieverLike,
        RetrieverOutput as RetrieverOutput,
        RetrieverOutputLike as RetrieverOutputLike,
    )
    from foldline.retrievers.bm25 import BM25Retriever as BM25Retriever
    from foldline.retrievers.compression import (
        ContextualCompressionRetriever as ContextualCompressionRetriever,
    )
    from foldline.retrievers.document_compressors import (
        DocumentCompressorPipeline as DocumentCompressorPipeline,
        EmbeddingsFilter as EmbeddingsFilter,
        EmbeddingsRedundantFilter as EmbeddingsRedundantFilter,
        LLMChainExtractor as LLMChainExtractor,
        LLMChainFilter as LLMChainFilter,
        LongContextReorder as LongContextReorder,
    )
    from foldline.retrievers.ensemble import EnsembleRetriever as EnsembleRetriever
    from foldline.retrievers.merged import (
        MergerRetriever as MergerRetriever,
        RePhraseQueryRetriever as RePhraseQueryRetriever,
    )
    from foldline.retrievers.multi_query import MultiQueryRetriever as MultiQueryRetriever
    from foldline.retrievers.multi_vector import (
        MultiVectorRetriever as MultiVectorRetriever,
        ParentDocumentRetriever as ParentDocumentRetriever,
    )
    from foldline.retrievers.query_constructor import AttributeInfo as AttributeInfo
    from foldline.retrievers.self_query import SelfQueryRetriever as SelfQueryRetriever
    from foldline.retrievers.time_weighted import (
        TimeWeightedVectorStoreRetriever as TimeWeightedVectorStoreRetriever,
    )
