"""`MergerRetriever`: interleaves several retrievers. `RePhraseQueryRetriever`: a model rewrites the question."""

from __future__ import annotations

from contextlib import aclosing
from itertools import chain, zip_longest
from typing import Any, Self

from foldline._run import Run
from foldline.documents.base import Document
from foldline.messages.base import BaseMessage
from foldline.prompts.prompt import PromptTemplate
from foldline.retrievers.base import BaseRetriever, RetrieverLike
from foldline.runnables.base import Runnable

__all__ = ["MergerRetriever", "RePhraseQueryRetriever"]

REPHRASE_PROMPT = PromptTemplate.from_template(
    "Rewrite the user's question as a short search query: leave out what does not help to find documents. Answer with "
    "the query alone.\n\nQuestion: {question}\nQuery:"
)


class MergerRetriever(BaseRetriever):
    """Asks several retrievers concurrently and interleaves their documents: the first of each, then the second."""

    retrievers: list[RetrieverLike]
    """The retrievers."""

    async def _invoke_body(self, input: str, run: Run) -> list[Document]:
        results: list[list[Document]] = [[] for _ in self.retrievers]

        async def ask(index: int) -> object:
            return await self.retrievers[index]._step(input, run.child())

        outcomes = run.io.as_completed(ask, range(len(results)), limit=run.max_concurrency)
        async with aclosing(outcomes):
            async for index, documents, error in outcomes:
                if error is not None:
                    raise error
                results[index] = documents
        interleaved = chain.from_iterable(zip_longest(*results))
        return [document for document in interleaved if document is not None]


class RePhraseQueryRetriever(BaseRetriever):
    """Lets a model rewrite the question as a query, and retrieves documents for that query."""

    retriever: RetrieverLike
    """Finds documents for the rewritten question."""
    llm_chain: Runnable[Any, Any]
    """Rewrites: takes `{"question": …}`, returns text or a message."""

    @classmethod
    def from_llm(
        cls,
        retriever: RetrieverLike,
        llm: Runnable[Any, Any],
        prompt: Runnable[Any, Any] = REPHRASE_PROMPT,
    ) -> Self:
        """Make the retriever for a model; a custom prompt takes `question`."""
        return cls(retriever=retriever, llm_chain=prompt | llm)

    async def _invoke_body(self, input: str, run: Run) -> list[Document]:
        answer = await self.llm_chain._step({"question": input}, run.child())
        query = str(answer.text if isinstance(answer, BaseMessage) else answer).strip()
        documents: list[Document] = await self.retriever._step(query, run.child())
        return documents
