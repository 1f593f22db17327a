"""Chains: named inputs to named outputs, with memory; each on runnables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.chains.base import RUN_KEY, Chain
    from foldline.chains.documents import (
        BaseCombineDocumentsChain,
        MapReduceDocumentsChain,
        ReduceDocumentsChain,
        RefineDocumentsChain,
        StuffDocumentsChain,
        load_qa_chain,
    )
    from foldline.chains.llm import ConversationChain, LLMChain
    from foldline.chains.llm_math import LLMMathChain
    from foldline.chains.map_rerank import MapRerankDocumentsChain
    from foldline.chains.retrieval import (
        ConversationalRetrievalChain,
        RetrievalQA,
        create_history_aware_retriever,
        create_retrieval_chain,
        create_stuff_documents_chain,
    )
    from foldline.chains.router import (
        LLMRouterChain,
        MultiPromptChain,
        MultiRouteChain,
        Route,
        RouterChain,
        RouterOutputParser,
    )
    from foldline.chains.saving import load_chain
    from foldline.chains.sequential import SequentialChain, SimpleSequentialChain, TransformChain
    from foldline.chains.sql import create_sql_query_chain
    from foldline.chains.structured_output import (
        create_openai_fn_runnable,
        create_structured_output_runnable,
        get_openai_output_parser,
    )
    from foldline.chains.summarize import (
        acollapse_docs,
        collapse_docs,
        load_summarize_chain,
        split_list_of_docs,
    )

__all__ = [
    "RUN_KEY",
    "BaseCombineDocumentsChain",
    "Chain",
    "ConversationChain",
    "ConversationalRetrievalChain",
    "LLMChain",
    "LLMMathChain",
    "LLMRouterChain",
    "MapReduceDocumentsChain",
    "MapRerankDocumentsChain",
    "MultiPromptChain",
    "MultiRouteChain",
    "ReduceDocumentsChain",
    "RefineDocumentsChain",
    "RetrievalQA",
    "Route",
    "RouterChain",
    "RouterOutputParser",
    "SequentialChain",
    "SimpleSequentialChain",
    "StuffDocumentsChain",
    "TransformChain",
    "acollapse_docs",
    "collapse_docs",
    "create_history_aware_retriever",
    "create_openai_fn_runnable",
    "create_retrieval_chain",
    "create_sql_query_chain",
    "create_structured_output_runnable",
    "create_stuff_documents_chain",
    "get_openai_output_parser",
    "load_chain",
    "load_qa_chain",
    "load_summarize_chain",
    "split_list_of_docs",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "Chain RUN_KEY",
        ".documents": "BaseCombineDocumentsChain MapReduceDocumentsChain ReduceDocumentsChain "
        "RefineDocumentsChain StuffDocumentsChain load_qa_chain",
        ".llm": "ConversationChain LLMChain",
        ".retrieval": "ConversationalRetrievalChain RetrievalQA create_history_aware_retriever "
        "create_retrieval_chain create_stuff_documents_chain",
        ".saving": "load_chain",
        ".router": "LLMRouterChain MultiPromptChain MultiRouteChain Route RouterChain "
        "RouterOutputParser",
        ".sequential": "SequentialChain SimpleSequentialChain TransformChain",
        ".summarize": "acollapse_docs collapse_docs load_summarize_chain split_list_of_docs",
        ".map_rerank": "MapRerankDocumentsChain",
        ".llm_math": "LLMMathChain",
        ".sql": "create_sql_query_chain",
        ".structured_output": "create_openai_fn_runnable create_structured_output_runnable "
        "get_openai_output_parser",
    },
)
