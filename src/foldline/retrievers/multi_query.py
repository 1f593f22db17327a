"""`MultiQueryRetriever`: lets a model write the question in other words, and searches for all of them concurrently."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from itertools import chain
from typing import Any, Self

from foldline._run import Run
from foldline.documents.base import Document
from foldline.messages.base import BaseMessage
from foldline.retrievers.base import BaseRetriever, RetrieverLike
from foldline.runnables.base import Runnable
from foldline.runnables.lambda_ import RunnableLambda

__all__ = ["MultiQueryRetriever"]

REPHRASE_INSTRUCTIONS = (
    "Write three other ways to ask the question below, so that a search finds what the first wording misses. "
    "One per line, nothing else.\n\nQuestion: {question}"
)


class MultiQueryRetriever(BaseRetriever):
    """Searches with several wordings of a question; returns each document once."""

    retriever: RetrieverLike
    """Finds documents for each wording."""
    llm_chain: Runnable[Any, Any]
    """Takes `{"question": …}`, returns the wordings: lines of text, a message, or a list."""
    include_original: bool = False
    """Whether to search for the original question too."""

    @classmethod
    def from_llm(
        cls,
        retriever: RetrieverLike,
        llm: Runnable[Any, Any],
        prompt: Runnable[Any, Any] | None = None,
        *,
        include_original: bool = False,
    ) -> Self:
        """Make the retriever for a model; a custom prompt takes `question`."""
        rephrase_prompt = prompt or RunnableLambda(
            lambda inputs: REPHRASE_INSTRUCTIONS.replace("{question}", inputs["question"])
        )
        return cls(
            retriever=retriever, llm_chain=rephrase_prompt | llm, include_original=include_original
        )

    async def _invoke_body(self, input: str, run: Run) -> object:
        answer = await self.llm_chain._step({"question": input}, run.child())
        queries = list(
            dict.fromkeys([*_lines(answer), *([input] if self.include_original else [])])
        )
        results: list[list[Document]] = [[] for _ in queries]

        async def ask(index: int) -> object:
            return await self.retriever._step(queries[index], run.child())

        outcomes = run.io.as_completed(ask, range(len(queries)), limit=run.max_concurrency)
        async with aclosing(outcomes):
            async for index, documents, error in outcomes:
                if error is not None:
                    raise error
                results[index] = documents
        distinct: list[Document] = []
        for document in chain.from_iterable(results):
            if document not in distinct:
                distinct.append(document)
        return distinct


def _lines(answer: str | BaseMessage | Iterable[object]) -> list[str]:
    text = answer.text if isinstance(answer, BaseMessage) else answer
    lines = text.splitlines() if isinstance(text, str) else [str(line) for line in text]
    return [line.strip() for line in lines if line.strip()]
