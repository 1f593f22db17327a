"""`load_summarize_chain`, and LangChain's helpers for programs that reduce documents themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from foldline.chains.documents import (
    BaseCombineDocumentsChain,
    MapReduceDocumentsChain,
    ReduceDocumentsChain,
    RefineDocumentsChain,
    StuffDocumentsChain,
    group_documents,
)
from foldline.chains.llm import LLMChain
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.prompts import BasePromptTemplate, PromptTemplate
from foldline.runnables.base import Runnable

__all__ = ["acollapse_docs", "collapse_docs", "load_summarize_chain", "split_list_of_docs"]

SUMMARY_PROMPT = PromptTemplate.from_template(
    "Write a short summary of the text below.\n\n{text}\n\nSummary:"
)
REFINE_SUMMARY_PROMPT = PromptTemplate.from_template(
    "This is a summary so far:\n{existing_answer}\n\nThis is more text:\n{text}\n\n"
    "Write the summary anew so that it covers both. If the text adds nothing, repeat the summary.\n\nSummary:"
)


def load_summarize_chain(
    llm: Runnable[Any, Any],
    chain_type: str = "stuff",
    verbose: bool | None = None,  # noqa: FBT001  LangChain's signature
    **kwargs: Any,
) -> BaseCombineDocumentsChain:
    """Make a chain that summarises `input_documents` as `output_text`: "stuff", "map_reduce" or "refine"."""
    makers: dict[str, Callable[..., BaseCombineDocumentsChain]] = {
        "stuff": _stuff,
        "map_reduce": _map_reduce,
        "refine": _refine,
    }
    if chain_type not in makers:
        raise UsageError(
            f"Got unsupported chain type: {chain_type}. Should be one of {list(makers)}"
        )
    if verbose is not None:
        kwargs["verbose"] = verbose
    return makers[chain_type](llm, **kwargs)


def _stuff(
    llm: Runnable[Any, Any],
    *,
    prompt: BasePromptTemplate[Any] = SUMMARY_PROMPT,
    document_variable_name: str = "text",
    **kwargs: Any,
) -> StuffDocumentsChain:
    chain = LLMChain(llm=llm, prompt=prompt)
    return StuffDocumentsChain(
        llm_chain=chain, document_variable_name=document_variable_name, **kwargs
    )


def _map_reduce(
    llm: Runnable[Any, Any],
    *,
    map_prompt: BasePromptTemplate[Any] = SUMMARY_PROMPT,
    combine_prompt: BasePromptTemplate[Any] = SUMMARY_PROMPT,
    combine_document_variable_name: str = "text",
    map_reduce_document_variable_name: str = "text",
    collapse_prompt: BasePromptTemplate[Any] | None = None,
    reduce_llm: Runnable[Any, Any] | None = None,
    collapse_llm: Runnable[Any, Any] | None = None,
    token_max: int = 3000,
    **kwargs: Any,
) -> MapReduceDocumentsChain:
    name = combine_document_variable_name
    reducer = reduce_llm or llm
    combine = _stuff(reducer, prompt=combine_prompt, document_variable_name=name)
    collapse = None
    if collapse_prompt is not None:
        collapse = _stuff(
            collapse_llm or reducer, prompt=collapse_prompt, document_variable_name=name
        )
    elif collapse_llm is not None:
        raise ValueError("collapse_llm provided, but collapse_prompt was not: please provide one")
    reduce = ReduceDocumentsChain(
        combine_documents_chain=combine, collapse_documents_chain=collapse, token_max=token_max
    )
    return MapReduceDocumentsChain(
        llm_chain=LLMChain(llm=llm, prompt=map_prompt),
        reduce_documents_chain=reduce,
        document_variable_name=map_reduce_document_variable_name,
        **kwargs,
    )


def _refine(
    llm: Runnable[Any, Any],
    *,
    question_prompt: BasePromptTemplate[Any] = SUMMARY_PROMPT,
    refine_prompt: BasePromptTemplate[Any] = REFINE_SUMMARY_PROMPT,
    document_variable_name: str = "text",
    initial_response_name: str = "existing_answer",
    refine_llm: Runnable[Any, Any] | None = None,
    **kwargs: Any,
) -> RefineDocumentsChain:
    return RefineDocumentsChain(
        initial_llm_chain=LLMChain(llm=llm, prompt=question_prompt),
        refine_llm_chain=LLMChain(llm=refine_llm or llm, prompt=refine_prompt),
        document_variable_name=document_variable_name,
        initial_response_name=initial_response_name,
        **kwargs,
    )


def split_list_of_docs(
    docs: list[Document], length_func: Callable[..., int], token_max: int, **kwargs: Any
) -> list[list[Document]]:
    """Put documents into groups of at most `token_max` tokens; raise `ValueError` if a single document is longer."""
    for document in docs:
        if length_func([document], **kwargs) > token_max:
            raise ValueError(
                "A single document was longer than the context length, we cannot handle this."
            )
    return group_documents(docs, lambda group: length_func(group, **kwargs), token_max)


def collapse_docs(
    docs: list[Document], combine_document_func: Callable[..., str], **kwargs: Any
) -> Document:
    """Merge documents into one; values of the same metadata key are joined by commas."""
    return _merge_documents(docs, combine_document_func(docs, **kwargs))


async def acollapse_docs(
    docs: list[Document], combine_document_func: Callable[..., Awaitable[str]], **kwargs: Any
) -> Document:
    """Merge documents into one; values of the same metadata key are joined by commas."""
    return _merge_documents(docs, await combine_document_func(docs, **kwargs))


def _merge_documents(docs: list[Document], text: str) -> Document:
    metadata: dict[str, str] = {}
    for document in docs:
        for key, value in document.metadata.items():
            metadata[key] = f"{metadata[key]}, {value}" if key in metadata else str(value)
    return Document(page_content=text, metadata=metadata)
