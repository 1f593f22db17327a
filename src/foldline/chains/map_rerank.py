"""`MapRerankDocumentsChain`: asks about each document separately and returns the answer with the best score."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from foldline._run import Run
from foldline.chains._legacy_calls import Values
from foldline.chains.documents import BaseCombineDocumentsChain, Pieces
from foldline.chains.llm import LLMChain
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.output_parsers.regex import RegexParser
from foldline.prompts import PromptTemplate

__all__ = ["MapRerankDocumentsChain"]

SCORE_PARSER = RegexParser(
    regex=r"(?s)(.*?)\s*\n+\s*Score:\s*(\d+)", output_keys=["answer", "score"]
)
RERANK_PROMPT = PromptTemplate.from_template(
    "Answer the question from the text below alone; if the text does not say, answer that you do not know. On a last "
    "line write how well the text answers it, from 0 to 100, in the form:\n\nScore: 70\n\n"
    "Text:\n{context}\n\nQuestion: {question}\nAnswer:"
)


class MapRerankDocumentsChain(BaseCombineDocumentsChain):
    """Asks about each document separately and concurrently; returns the answer with the highest score.

    The prompt's `output_parser` reads an answer as a dict with `answer_key` and `rank_key`.
    """

    llm_chain: LLMChain
    document_variable_name: str = "context"
    rank_key: str = "score"
    """The key of an answer by which answers are ordered."""
    answer_key: str = "answer"
    """The key of an answer that is returned."""
    metadata_keys: list[str] | None = None
    """Metadata of the chosen document that is returned too."""
    return_intermediate_steps: bool = False
    """Whether all answers are returned too, as `intermediate_steps`."""

    @property
    def _chain_type(self) -> str:
        return "map_rerank_documents_chain"

    @property
    def output_keys(self) -> list[str]:
        """The answer, the answers of all documents, and the metadata, as the options say."""
        steps = ["intermediate_steps"] if self.return_intermediate_steps else []
        return [self.output_key, *steps, *(self.metadata_keys or [])]

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        documents: list[Document] = inputs[self.input_key]
        if not documents:
            raise UsageError("there is no document to answer from")
        answers = await self._answers(documents, inputs, run)
        best = max(range(len(answers)), key=lambda index: int(answers[index][self.rank_key]))
        outputs: Values = {self.output_key: answers[best][self.answer_key]}
        if self.return_intermediate_steps:
            outputs["intermediate_steps"] = answers
        for key in self.metadata_keys or []:
            outputs[key] = documents[best].metadata[key]
        yield outputs

    async def _answers(
        self, documents: list[Document], inputs: Values, run: Run
    ) -> list[dict[str, Any]]:
        prompt = self.llm_chain.prompt
        parser = getattr(prompt, "output_parser", None) or SCORE_PARSER

        async def ask(document: Document) -> Values:
            values = {**inputs, self.document_variable_name: document.page_content}
            prompt_inputs = {key: values[key] for key in prompt.input_variables}
            child = run.child().patched(kwargs={"return_only_outputs": True})
            answer = (await self.llm_chain._step(prompt_inputs, child))[self.llm_chain.output_key]
            return answer if isinstance(answer, dict) else parser.parse(answer)

        answers: list[dict[str, Any]] = [{}] * len(documents)
        outcomes = run.io.as_completed(ask, documents, limit=run.max_concurrency)
        async with aclosing(outcomes):
            async for index, answer, error in outcomes:
                if error is not None:
                    raise error
                answers[index] = answer
        return answers

    async def _combine(
        self, documents: list[Document], prompt_values: Values, run: Run, *, stream: bool
    ) -> Pieces:
        async with aclosing(
            self._work({**prompt_values, self.input_key: documents}, run, stream=stream)
        ) as outputs:
            async for output in outputs:
                yield output[self.output_key]
