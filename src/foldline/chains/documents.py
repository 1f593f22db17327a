"""Chains that answer from documents.

All documents in one prompt (stuff), each document alone and then the answers combined (map-reduce), or one after the
other, each improving the answer (refine).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from pydantic import Field

from foldline._run import Run
from foldline.chains._legacy_calls import Values
from foldline.chains.base import GeneratorChain
from foldline.chains.llm import LLMChain
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.language_models.base import BaseLanguageModel
from foldline.memory._field_types import AnyPrompt
from foldline.messages import BaseMessage, HumanMessage, count_tokens_approximately
from foldline.prompts import PromptTemplate, format_document
from foldline.runnables.base import Runnable

__all__ = [
    "BaseCombineDocumentsChain",
    "MapReduceDocumentsChain",
    "ReduceDocumentsChain",
    "RefineDocumentsChain",
    "StuffDocumentsChain",
    "load_qa_chain",
]

DOCUMENT_PROMPT = PromptTemplate.from_template("{page_content}")
Pieces = AsyncGenerator[str, None]


class BaseCombineDocumentsChain(GeneratorChain, ABC):
    """Answers from documents."""

    input_key: str = "input_documents"
    output_key: str = "output_text"

    @property
    def input_keys(self) -> list[str]:
        """The documents; other variables of the prompt are passed as further inputs."""
        return [self.input_key]

    @property
    def output_keys(self) -> list[str]:
        """The answer."""
        return [self.output_key]

    @abstractmethod
    def _combine(
        self, documents: list[Document], prompt_values: Values, run: Run, *, stream: bool
    ) -> Pieces:
        """Return the answer, in pieces where the caller streams."""

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        prompt_values = {key: value for key, value in inputs.items() if key != self.input_key}
        async with aclosing(
            self._combine(inputs[self.input_key], prompt_values, run, stream=stream)
        ) as pieces:
            async for piece in pieces:
                yield {self.output_key: piece}

    async def _combine_text(
        self, documents: list[Document], prompt_values: Values, run: Run
    ) -> str:
        async with aclosing(self._combine(documents, prompt_values, run, stream=False)) as pieces:
            return "".join([piece async for piece in pieces])


async def _ask(chain: LLMChain, values: Values, run: Run, *, stream: bool) -> Pieces:
    """Run a chain; yield its answer, in pieces where the caller streams."""
    inputs = {
        key: value
        for key, value in values.items()
        if key in chain.prompt.input_variables or key == "stop"
    }
    child = run.child().patched(kwargs={"return_only_outputs": True})
    if stream:
        async with aclosing(chain._step_stream(inputs, child)) as pieces:
            async for piece in pieces:
                yield piece[chain.output_key]
    else:
        yield (await chain._step(inputs, child))[chain.output_key]


def _count(chain: LLMChain, texts: list[str]) -> int:
    """Count tokens with the chain's model; approximately where the model is wrapped, for example by `bind`."""
    messages: list[BaseMessage] = [HumanMessage(content=text) for text in texts]
    if isinstance(chain.llm, BaseLanguageModel):
        return chain.llm.get_num_tokens_from_messages(messages)
    return count_tokens_approximately(messages)


class StuffDocumentsChain(BaseCombineDocumentsChain):
    """Puts all documents into one prompt."""

    llm_chain: LLMChain
    document_prompt: AnyPrompt = Field(default_factory=lambda: DOCUMENT_PROMPT)
    """Formats a document."""
    document_variable_name: str = "context"
    """The variable of the prompt that takes the documents."""
    document_separator: str = "\n\n"

    @property
    def _chain_type(self) -> str:
        return "stuff_documents_chain"

    @property
    def input_keys(self) -> list[str]:
        """The documents, and the other variables of the prompt."""
        other_keys = [
            key for key in self.llm_chain.input_keys if key != self.document_variable_name
        ]
        return [self.input_key, *other_keys]

    def _format_documents(self, documents: list[Document]) -> str:
        return self.document_separator.join(
            format_document(document, self.document_prompt) for document in documents
        )

    def prompt_length(self, docs: list[Document], **kwargs: object) -> int:
        """Count the tokens of the prompt with these documents."""
        prompt = self.llm_chain.prompt.format(
            **{**kwargs, self.document_variable_name: self._format_documents(docs)}
        )
        return _count(self.llm_chain, [str(prompt)])

    def _combine(
        self, documents: list[Document], prompt_values: Values, run: Run, *, stream: bool
    ) -> Pieces:
        values = {**prompt_values, self.document_variable_name: self._format_documents(documents)}
        return _ask(self.llm_chain, values, run, stream=stream)


class ReduceDocumentsChain(BaseCombineDocumentsChain):
    """Combines documents; those that do not fit together are first combined in groups."""

    combine_documents_chain: StuffDocumentsChain
    collapse_documents_chain: StuffDocumentsChain | None = None
    """Combines a group; default: the same chain."""
    token_max: int = 3000
    collapse_max_retries: int = 10
    """How often groups may be combined again before giving up."""

    @property
    def _chain_type(self) -> str:
        return "reduce_documents_chain"

    def _size(self, documents: list[Document]) -> int:
        return _count(
            self.combine_documents_chain.llm_chain,
            [document.page_content for document in documents],
        )

    async def _collapse(
        self, documents: list[Document], prompt_values: Values, run: Run
    ) -> list[Document]:
        chain = self.collapse_documents_chain or self.combine_documents_chain
        for _ in range(self.collapse_max_retries):
            if len(documents) < 2 or self._size(documents) <= self.token_max:
                return documents
            groups = group_documents(documents, self._size, self.token_max)
            documents = [
                Document(page_content=await chain._combine_text(group, prompt_values, run))
                for group in groups
            ]
        raise UsageError(
            f"{len(documents)} documents exceed {self.token_max} tokens after {self.collapse_max_retries} rounds: "
            "raise token_max, or let the prompt ask for shorter answers"
        )

    async def _combine(
        self, documents: list[Document], prompt_values: Values, run: Run, *, stream: bool
    ) -> Pieces:
        fitting_documents = await self._collapse(documents, prompt_values, run)
        async with aclosing(
            self.combine_documents_chain._combine(
                fitting_documents, prompt_values, run, stream=stream
            )
        ) as pieces:
            async for piece in pieces:
                yield piece


def group_documents(
    documents: list[Document], size: Callable[[list[Document]], int], limit: int
) -> list[list[Document]]:
    """Put documents into groups that fit the limit; a document that is too large alone has its own group."""
    groups: list[list[Document]] = []
    for document in documents:
        if groups and size([*groups[-1], document]) <= limit:
            groups[-1].append(document)
        else:
            groups.append([document])
    return groups


class MapReduceDocumentsChain(BaseCombineDocumentsChain):
    """Asks about each document separately and concurrently, then combines the answers."""

    llm_chain: LLMChain
    reduce_documents_chain: BaseCombineDocumentsChain
    document_variable_name: str = "context"

    @property
    def _chain_type(self) -> str:
        return "map_reduce_documents_chain"

    async def _combine(
        self, documents: list[Document], prompt_values: Values, run: Run, *, stream: bool
    ) -> Pieces:
        async def ask(document: Document) -> str:
            values = {**prompt_values, self.document_variable_name: document.page_content}
            async with aclosing(_ask(self.llm_chain, values, run, stream=False)) as answers:
                return "".join([answer async for answer in answers])

        answers = [""] * len(documents)
        async with aclosing(
            run.io.as_completed(ask, documents, limit=run.max_concurrency)
        ) as outcomes:
            async for place, value, error in outcomes:
                if error is not None:
                    raise error
                answers[place] = value
        answer_documents = [
            Document(page_content=answer, metadata=document.metadata)
            for document, answer in zip(documents, answers, strict=True)
        ]
        async with aclosing(
            self.reduce_documents_chain._combine(
                answer_documents, prompt_values, run, stream=stream
            )
        ) as pieces:
            async for piece in pieces:
                yield piece


class RefineDocumentsChain(BaseCombineDocumentsChain):
    """Answers from the first document and improves the answer with each further one."""

    initial_llm_chain: LLMChain
    refine_llm_chain: LLMChain
    document_variable_name: str = "context"
    initial_response_name: str = "existing_answer"
    document_prompt: AnyPrompt = Field(default_factory=lambda: DOCUMENT_PROMPT)

    @property
    def _chain_type(self) -> str:
        return "refine_documents_chain"

    async def _combine(
        self, documents: list[Document], prompt_values: Values, run: Run, *, stream: bool
    ) -> Pieces:
        if not documents:
            raise UsageError("there is no document to answer from")
        answer = ""
        for place, document in enumerate(documents):
            values = {
                **prompt_values,
                self.document_variable_name: format_document(document, self.document_prompt),
            }
            chain = self.refine_llm_chain if place else self.initial_llm_chain
            is_last = place == len(documents) - 1
            parts: list[str] = []
            inputs = {**values, self.initial_response_name: answer}
            async with aclosing(_ask(chain, inputs, run, stream=stream and is_last)) as pieces:
                async for piece in pieces:
                    parts.append(piece)
                    if is_last:
                        yield piece
            answer = "".join(parts)


QA_PROMPT = PromptTemplate.from_template(
    "Answer the question from the text below. If the text does not say, answer that you do not know.\n\n"
    "{context}\n\nQuestion: {question}\nAnswer:"
)
REFINE_PROMPT = PromptTemplate.from_template(
    "Question: {question}\nThe answer so far: {existing_answer}\nMore text:\n{context}\n"
    "Improve the answer with this text where it helps; else repeat the answer.\nAnswer:"
)


def load_qa_chain(
    llm: Runnable[Any, Any], chain_type: str = "stuff", **kwargs: Any
) -> BaseCombineDocumentsChain:
    """Make a chain that answers `question` from `input_documents`: "stuff", "map_reduce" or "refine"."""
    answer_chain = LLMChain(llm=llm, prompt=kwargs.pop("prompt", QA_PROMPT))
    if chain_type == "stuff":
        return StuffDocumentsChain(llm_chain=answer_chain, **kwargs)
    if chain_type == "map_reduce":
        stuff_chain = StuffDocumentsChain(llm_chain=answer_chain)
        reduce_chain = ReduceDocumentsChain(combine_documents_chain=stuff_chain)
        return MapReduceDocumentsChain(
            llm_chain=answer_chain, reduce_documents_chain=reduce_chain, **kwargs
        )
    if chain_type == "refine":
        refine_chain = LLMChain(llm=llm, prompt=kwargs.pop("refine_prompt", REFINE_PROMPT))
        return RefineDocumentsChain(
            initial_llm_chain=answer_chain, refine_llm_chain=refine_chain, **kwargs
        )
    raise UsageError(f"chain_type is 'stuff', 'map_reduce' or 'refine', not {chain_type!r}")
