"""`MergerRetriever`: several retrievers in turns. `RePhraseQueryRetriever`: a model rewords the question."""

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
    """Asks several retrievers at once; their documents come in turns, the first of each and so on."""

    retrievers: list[RetrieverLike]
    """The retrievers."""

    async def _invoke_body(self, input: Any, run: Run) -> list[Document]:
        found: list[list[Document]] = [[] for _ in self.retrievers]

        async def ask(place: int) -> Any:
            return await self.retrievers[place]._step(input, run.child())

        outcomes = run.io.as_completed(ask, range(len(found)), limit=run.max_concurrency)
        async with aclosing(outcomes):
            async for place, documents, error in outcomes:
                if error is not None:
                    raise error
                found[place] = documents
        turns = chain.from_iterable(zip_longest(*found))
        return [document for document in turns if document is not None]


class RePhraseQueryRetriever(BaseRetriever):
    """Looks for what a model makes of the question."""

    retriever: RetrieverLike
    """Looks for the new wording."""
    llm_chain: Runnable[Any, Any]
    """From `{"question": …}` to the new wording."""

    @classmethod
    def from_llm(
        cls,
        retriever: RetrieverLike,
        llm: Runnable[Any, Any],
        prompt: Runnable[Any, Any] = REPHRASE_PROMPT,
    ) -> Self:
        """Make one of a model; a prompt of your own takes `question`."""
        return cls(retriever=retriever, llm_chain=prompt | llm)

    async def _invoke_body(self, input: Any, run: Run) -> list[Document]:
        answer = await self.llm_chain._step({"question": input}, run.child())
        words = str(answer.text if isinstance(answer, BaseMessage) else answer).strip()
        found: list[Document] = await self.retriever._step(words, run.child())
        return found
