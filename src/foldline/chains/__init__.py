"""Chains: named inputs to named outputs, with memory; each on runnables."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.chains.base import RUN_KEY as RUN_KEY, Chain as Chain
    from foldline.chains.documents import (
        BaseCombineDocumentsChain as BaseCombineDocumentsChain,
        MapReduceDocumentsChain as MapReduceDocumentsChain,
        ReduceDocumentsChain as ReduceDocumentsChain,
        RefineDocumentsChain as RefineDocumentsChain,
        StuffDocumentsChain as StuffDocumentsChain,
        load_qa_chain as load_qa_chain,
    )
    from foldline.chains.llm import ConversationChain as ConversationChain, LLMChain as LLMChain
    from foldline.chains.llm_math import LLMMathChain as LLMMathChain
    from foldline.chains.map_rerank import MapRerankDocumentsChain as MapRerankDocumentsChain
    from foldline.chains.retrieval import (
        ConversationalRetrievalChain as ConversationalRetrievalChain,
        RetrievalQA as RetrievalQA,
        create_history_aware_retriever as create_history_aware_retriever,
        create_retrieval_chain as create_retrieval_chain,
        create_stuff_documents_chain as create_stuff_documents_chain,
    )
    from foldline.chains.router import (
        LLMRouterChain as LLMRouterChain,
        MultiPromptChain as MultiPromptChain,
        MultiRouteChain as MultiRouteChain,
        Route as Route,
        RouterChain as RouterChain,
        RouterOutputParser as RouterOutputParser,
    )
    from foldline.chains.saving import load_chain as load_chain
    from foldline.chains.sequential import (
        SequentialChain as SequentialChain,
        SimpleSequentialChain as SimpleSequentialChain,
        TransformChain as TransformChain,
    )
    from foldline.chains.sql import create_sql_query_chain as create_sql_query_chain
    from foldline.chains.structured_output import (
        create_openai_fn_runnable as create_openai_fn_runnable,
        create_structured_output_runnable as create_structured_output_runnable,
        get_openai_output_parser as get_openai_output_parser,
    )
    from foldline.chains.summarize import (
        acollapse_docs as acollapse_docs,
        collapse_docs as collapse_docs,
        load_summarize_chain as load_summarize_chain,
        split_list_of_docs as split_list_of_docs,
    )
