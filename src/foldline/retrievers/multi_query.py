"""`MultiQueryRetriever`: lets a model put the question in other words, and looks for all of them at once."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, Self

from foldline._run import Run
from foldline.documents.base import Document
from foldline.messages.base import BaseMessage
from foldline.retrievers.base import BaseRetriever, RetrieverLike
from foldline.runnables.base import Runnable
from foldline.runnables.lambda_ import RunnableLambda

__all__ = ["MultiQueryRetriever"]

ASK = (
    "Write three other ways to ask the question below, so that a search finds what the first wording misses. "
    "One per line, nothing else.\n\nQuestion: {question}"
)


class MultiQueryRetriever(BaseRetriever):
    """Looks for a question in several wordings; documents found by more than one are given once."""

    retriever: RetrieverLike
    """Looks for each wording."""
    llm_chain: Runnable[Any, Any]
    """Takes `{"question": …}`, gives the wordings: lines of text, a message, or a list."""
    include_original: bool = False
    """Whether to look for the question itself too."""

    @classmethod
    def from_llm(
        cls,
        retriever: RetrieverLike,
        llm: Runnable[Any, Any],
        prompt: Runnable[Any, Any] | None = None,
        *,
        include_original: bool = False,
    ) -> Self:
        """Make one of a model; a prompt of your own takes `question`."""
        asked = prompt or RunnableLambda(lambda given: ASK.replace("{question}", given["question"]))
        return cls(retriever=retriever, llm_chain=asked | llm, include_original=include_original)

    async def _invoke_body(self, input: Any, run: Run) -> object:
        answer = await self.llm_chain._step({"question": input}, run.child())
        queries = list(
            dict.fromkeys([*_lines(answer), *([input] if self.include_original else [])])
        )
        found: list[list[Document]] = [[] for _ in queries]

        async def ask(place: int) -> Any:
            return await self.retriever._step(queries[place], run.child())

        outcomes = run.io.as_completed(ask, range(len(queries)), limit=run.max_concurrency)
        async with aclosing(outcomes):
            async for place, documents, error in outcomes:
                if error is not None:
                    raise error
                found[place] = documents
        distinct: list[Document] = []
        for document in (one for documents in found for one in documents):
            if document not in distinct:
                distinct.append(document)
        return distinct


def _lines(answer: Any) -> list[str]:
    if isinstance(answer, BaseMessage):
        answer = answer.text
    lines = answer.splitlines() if isinstance(answer, str) else [str(line) for line in answer]
    return [line.strip() for line in lines if line.strip()]
