"""A retriever as a tool: takes a query, returns the text of the documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pydantic import BaseModel, Field

from foldline._config import RunnableConfig
from foldline.exceptions import UsageError
from foldline.tools.base import ResponseFormat
from foldline.tools.structured import StructuredTool

__all__ = ["RetrieverInput", "create_retriever_tool"]


class DocumentLike(Protocol):
    """An object with the text and metadata of a document."""

    page_content: str
    metadata: Any


class Retriever(Protocol):
    """A runnable from a query to documents, such as foldline's retrievers."""

    def invoke(self, input: str, config: RunnableConfig | None = None) -> Sequence[DocumentLike]:
        """Return the documents for a query."""

    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None
    ) -> Sequence[DocumentLike]:
        """Return the documents for a query."""


class DocumentPrompt(Protocol):
    """A prompt that formats one document."""

    input_variables: list[str]

    def format(self, **kwargs: object) -> str:
        """Return the text of a document."""


class RetrieverInput(BaseModel):
    """The arguments of a retriever tool."""

    query: str = Field(description="query to look up in retriever")


def create_retriever_tool(
    retriever: Retriever,
    name: str,
    description: str,
    *,
    document_prompt: DocumentPrompt | None = None,
    document_separator: str = "\n\n",
    response_format: ResponseFormat = "content",
) -> StructuredTool:
    """Make a tool that finds documents; with "content_and_artifact" the documents are the artifact."""

    def answer(documents: Sequence[DocumentLike]) -> object:
        text = document_separator.join(_text(document, document_prompt) for document in documents)
        return text if response_format == "content" else (text, documents)

    def search(query: str, config: RunnableConfig) -> object:
        return answer(retriever.invoke(query, config))

    async def asearch(query: str, config: RunnableConfig) -> object:
        return answer(await retriever.ainvoke(query, config))

    return StructuredTool(
        name=name,
        description=description,
        func=search,
        coroutine=asearch,
        args_schema=RetrieverInput,
        response_format=response_format,
    )


def _text(document: DocumentLike, prompt: DocumentPrompt | None) -> str:
    if prompt is None:
        return document.page_content
    values = {**document.metadata, "page_content": document.page_content}
    missing = [name for name in prompt.input_variables if name not in values]
    if missing:
        raise UsageError(
            f"the document prompt wants {missing[0]!r}, and a document has only {', '.join(sorted(values))}"
        )
    return prompt.format(**{name: values[name] for name in prompt.input_variables})
