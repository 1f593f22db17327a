"""Compressors reduce retrieved documents to what is relevant: filters by a model or by vectors, extracts, pipelines."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, Field

from foldline._config import RunnableConfig
from foldline._io.drive import drive
from foldline._run import Run
from foldline.callbacks.base import Callbacks
from foldline.documents.base import Document
from foldline.documents.compressor import BaseDocumentCompressor
from foldline.documents.transformers import BaseDocumentTransformer
from foldline.embeddings.base import Embeddings
from foldline.messages.base import BaseMessage
from foldline.output_parsers.enum import BooleanOutputParser
from foldline.prompts.prompt import PromptTemplate
from foldline.runnables.base import Runnable
from foldline.utils._short_repr import short_repr

__all__ = [
    "DocumentCompressorPipeline",
    "EmbeddingsFilter",
    "EmbeddingsRedundantFilter",
    "LLMChainExtractor",
    "LLMChainFilter",
    "LongContextReorder",
]

NOTHING_RELEVANT = "NO_OUTPUT"
EXTRACT_PROMPT = PromptTemplate.from_template(
    "Copy the parts of the text below that help to answer the question, word for word and with nothing added. If no "
    "part does, write "
    + NOTHING_RELEVANT
    + ".\n\nQuestion: {question}\n\nText:\n{context}\n\nHelpful parts:"
)
FILTER_PROMPT = PromptTemplate.from_template(
    "Does the text below help to answer the question? Write YES or NO and nothing else.\n\n"
    "Question: {question}\n\nText:\n{context}\n\nYES or NO:"
)
GetInput = Callable[[str, Document], dict[str, Any]]


def question_and_context(query: str, document: Document) -> dict[str, Any]:
    """Return the variables of a prompt about one document."""
    return {"question": query, "context": document.page_content}


class _Compressor(BaseDocumentCompressor):
    """A compressor with one implementation, `_compress`, for sync and async calls."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    @abstractmethod
    async def _compress(
        self, documents: Sequence[Document], query: str, run: Run
    ) -> list[Document]: ...

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> list[Document]:
        """Return the parts of the documents that are relevant to the query."""
        return drive(self._compress(documents, query, Run.blocking(_config(callbacks))))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> list[Document]:
        """Return the parts of the documents that are relevant to the query."""
        return await self._compress(documents, query, Run.asynchronous(_config(callbacks)))


def _config(callbacks: Callbacks) -> RunnableConfig | None:
    return None if callbacks is None else {"callbacks": callbacks}


async def _answers(
    chain: Runnable[Any, Any], inputs: Sequence[dict[str, Any]], run: Run
) -> list[str]:
    """Ask about each document concurrently; return the answers in the order of the documents."""
    answers = [""] * len(inputs)

    async def ask(index: int) -> object:
        return await chain._step(inputs[index], run.child())

    outcomes = run.io.as_completed(ask, range(len(inputs)), limit=run.max_concurrency)
    async with aclosing(outcomes):
        async for index, answer, error in outcomes:
            if error is not None:
                raise error
            answers[index] = _text(answer)
    return answers


def _text(answer: object) -> str:
    if isinstance(answer, dict):  # the outputs of a chain
        answer = answer.get("text", "")
    return str(answer.text if isinstance(answer, BaseMessage) else answer)


class LLMChainExtractor(_Compressor):
    """Keeps the parts of each document that a model finds helpful; documents without any are left out."""

    llm_chain: Runnable[Any, Any]
    """Takes the variables of `get_input`, returns text."""
    get_input: GetInput = question_and_context

    @classmethod
    def from_llm(
        cls,
        llm: Runnable[Any, Any],
        prompt: Runnable[Any, Any] | None = None,
        get_input: GetInput | None = None,
        llm_chain_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Make the compressor for a model; a custom prompt takes `question` and `context`."""
        chain = (prompt or EXTRACT_PROMPT) | llm
        return cls(llm_chain=chain, get_input=get_input or question_and_context)

    async def _compress(
        self, documents: Sequence[Document], query: str, run: Run
    ) -> list[Document]:
        inputs = [self.get_input(query, document) for document in documents]
        texts = [text.strip() for text in await _answers(self.llm_chain, inputs, run)]
        return [
            Document(text, metadata=document.metadata)
            for document, text in zip(documents, texts, strict=True)
            if text and text != NOTHING_RELEVANT
        ]


class LLMChainFilter(_Compressor):
    """Keeps the documents that a model finds helpful, unchanged."""

    llm_chain: Runnable[Any, Any]
    """Takes the variables of `get_input`, returns YES or NO."""
    get_input: GetInput = question_and_context

    @classmethod
    def from_llm(
        cls, llm: Runnable[Any, Any], prompt: Runnable[Any, Any] | None = None, **kwargs: Any
    ) -> Self:
        """Make the compressor for a model; a custom prompt takes `question` and `context`."""
        return cls(llm_chain=(prompt or FILTER_PROMPT) | llm, **kwargs)

    async def _compress(
        self, documents: Sequence[Document], query: str, run: Run
    ) -> list[Document]:
        inputs = [self.get_input(query, document) for document in documents]
        answers = await _answers(self.llm_chain, inputs, run)
        parser = BooleanOutputParser()
        return [
            document
            for document, answer in zip(documents, answers, strict=True)
            if parser.parse(answer)
        ]


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    product = sum(x * y for x, y in zip(left, right, strict=True))
    length = math.hypot(*left) * math.hypot(*right)
    return product / length if length else 0.0


class EmbeddingsFilter(_Compressor):
    """Keeps the documents whose vectors are near the query's: the `k` nearest, or all above a threshold."""

    embeddings: Embeddings
    """Makes the vectors."""
    similarity_fn: Callable[[Any, Any], Any] | None = None
    """Compares rows of vectors (LangChain's form: two matrices to a matrix); default: the cosine."""
    k: int | None = 20
    """The most documents to keep; None keeps all above the threshold."""
    similarity_threshold: float | None = None
    """The similarity that a document must exceed."""

    async def _compress(
        self, documents: Sequence[Document], query: str, run: Run
    ) -> list[Document]:
        if self.k is None and self.similarity_threshold is None:
            raise ValueError("Must specify one of `k` or `similarity_threshold`.")
        texts = [document.page_content for document in documents]
        model, is_sync = self.embeddings, run.io.blocking
        vectors = await run.io.call(
            model.embed_documents if is_sync else model.aembed_documents, texts
        )
        query_vector = await run.io.call(
            model.embed_query if is_sync else model.aembed_query, query
        )
        if self.similarity_fn is not None:
            scores = [float(score) for score in self.similarity_fn([query_vector], vectors)[0]]
        else:
            scores = [_cosine(query_vector, vector) for vector in vectors]
        order = sorted(range(len(scores)), key=lambda index: -scores[index])[: self.k]
        threshold = -math.inf if self.similarity_threshold is None else self.similarity_threshold
        return [
            Document(
                documents[index].page_content,
                metadata={**documents[index].metadata, "query_similarity_score": scores[index]},
            )
            for index in order
            if scores[index] > threshold
        ]


class DocumentCompressorPipeline(_Compressor):
    """Several compressors and transformers, one after the other."""

    transformers: list[Any] = Field(default_factory=list)
    """Compressors, splitters and other transformers of documents."""

    async def _compress(
        self, documents: Sequence[Document], query: str, run: Run
    ) -> list[Document]:
        for step in self.transformers:
            is_sync = run.io.blocking
            if isinstance(step, BaseDocumentCompressor):
                compress = step.compress_documents if is_sync else step.acompress_documents
                documents = await run.io.call(
                    compress, documents, query, callbacks=run.child().manager
                )
            elif isinstance(step, BaseDocumentTransformer):
                transform = step.transform_documents if is_sync else step.atransform_documents
                documents = await run.io.call(transform, documents)
            else:
                raise ValueError(f"Got unexpected transformer type: {type(step).__name__}")
        return list(documents)


class EmbeddingsRedundantFilter(BaseDocumentTransformer):
    """Leaves out documents that are nearly equal to an earlier one."""

    __repr__ = short_repr

    def __init__(self, *, embeddings: Embeddings, similarity_threshold: float = 0.95) -> None:
        self.embeddings = embeddings
        self.similarity_threshold = similarity_threshold

    def transform_documents(
        self, documents: Sequence[Document], **kwargs: object
    ) -> list[Document]:
        """Return the documents without repetitions."""
        vectors = self.embeddings.embed_documents([doc.page_content for doc in documents])
        distinct: list[int] = []
        for index, vector in enumerate(vectors):
            if all(_cosine(vector, vectors[i]) <= self.similarity_threshold for i in distinct):
                distinct.append(index)
        return [documents[index] for index in distinct]


class LongContextReorder(BaseDocumentTransformer):
    """Puts the best documents first and last, and the worst in the middle, which models attend to least."""

    __repr__ = short_repr

    def transform_documents(
        self, documents: Sequence[Document], **kwargs: object
    ) -> list[Document]:
        """Return the documents reordered; the input is ordered best first."""
        ordered: list[Document] = []
        for index, document in enumerate(reversed(documents)):
            ordered.insert(len(ordered) if index % 2 else 0, document)
        return ordered
