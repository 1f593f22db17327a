"""Compressors: what of found documents is worth reading. Filters by a model or by vectors, extracts, pipelines."""

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
from foldline.utils.short_repr import short_repr

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
    """A compressor whose work is written once, for both kinds of call."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    @abstractmethod
    async def _compress(
        self, documents: Sequence[Document], query: str, run: Run
    ) -> list[Document]: ...

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> list[Document]:
        """Return what of the documents is worth reading for the query."""
        return drive(self._compress(documents, query, Run.blocking(_config(callbacks))))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> list[Document]:
        """Return what of the documents is worth reading for the query."""
        return await self._compress(documents, query, Run.asynchronous(_config(callbacks)))


def _config(callbacks: Callbacks) -> RunnableConfig | None:
    return None if callbacks is None else {"callbacks": callbacks}


async def _answers(
    chain: Runnable[Any, Any], inputs: Sequence[dict[str, Any]], run: Run
) -> list[str]:
    """Ask about each document, several at once; the answers are in the documents' order."""
    answers = [""] * len(inputs)

    async def ask(place: int) -> Any:
        return await chain._step(inputs[place], run.child())

    outcomes = run.io.as_completed(ask, range(len(inputs)), limit=run.max_concurrency)
    async with aclosing(outcomes):
        async for place, answer, error in outcomes:
            if error is not None:
                raise error
            answers[place] = _text(answer)
    return answers


def _text(answer: Any) -> str:
    if isinstance(answer, dict):  # of a chain
        answer = answer.get("text", "")
    return str(answer.text if isinstance(answer, BaseMessage) else answer)


class LLMChainExtractor(_Compressor):
    """Keeps of each document the parts that a model finds helpful; documents without any are left out."""

    llm_chain: Runnable[Any, Any]
    """Takes the variables of `get_input`, gives a text."""
    get_input: GetInput = question_and_context

    @classmethod
    def from_llm(
        cls,
        llm: Runnable[Any, Any],
        prompt: Runnable[Any, Any] | None = None,
        get_input: GetInput | None = None,
        llm_chain_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Make one of a model; a prompt of your own takes `question` and `context`."""
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
    """Keeps the documents that a model finds helpful, as they are."""

    llm_chain: Runnable[Any, Any]
    """Takes the variables of `get_input`, gives YES or NO."""
    get_input: GetInput = question_and_context

    @classmethod
    def from_llm(
        cls, llm: Runnable[Any, Any], prompt: Runnable[Any, Any] | None = None, **kwargs: Any
    ) -> Self:
        """Make one of a model; a prompt of your own takes `question` and `context`."""
        return cls(llm_chain=(prompt or FILTER_PROMPT) | llm, **kwargs)

    async def _compress(
        self, documents: Sequence[Document], query: str, run: Run
    ) -> list[Document]:
        inputs = [self.get_input(query, document) for document in documents]
        answers = await _answers(self.llm_chain, inputs, run)
        reader = BooleanOutputParser()
        return [
            document
            for document, answer in zip(documents, answers, strict=True)
            if reader.parse(answer)
        ]


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    product = sum(one * other for one, other in zip(left, right, strict=True))
    length = math.hypot(*left) * math.hypot(*right)
    return product / length if length else 0.0


class EmbeddingsFilter(_Compressor):
    """Keeps the documents whose vectors are near to the question's: the `k` nearest, or all above a threshold."""

    embeddings: Embeddings
    """Makes the vectors."""
    similarity_fn: Callable[[Any, Any], Any] | None = None
    """Compares rows of vectors (LangChain's form: two matrices to a matrix); default: the cosine."""
    k: int | None = 20
    """How many to keep at most; None keeps all that are near enough."""
    similarity_threshold: float | None = None
    """How near they must be at least."""

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
        asked = await run.io.call(model.embed_query if is_sync else model.aembed_query, query)
        if self.similarity_fn is not None:
            scores = [float(score) for score in self.similarity_fn([asked], vectors)[0]]
        else:
            scores = [_cosine(asked, vector) for vector in vectors]
        order = sorted(range(len(scores)), key=lambda place: -scores[place])[: self.k]
        least = -math.inf if self.similarity_threshold is None else self.similarity_threshold
        return [
            Document(
                documents[place].page_content,
                metadata={**documents[place].metadata, "query_similarity_score": scores[place]},
            )
            for place in order
            if scores[place] > least
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
    """Leaves out documents that say nearly the same as one before them."""

    __repr__ = short_repr

    def __init__(self, *, embeddings: Embeddings, similarity_threshold: float = 0.95) -> None:
        self.embeddings = embeddings
        self.similarity_threshold = similarity_threshold

    def transform_documents(
        self, documents: Sequence[Document], **kwargs: object
    ) -> list[Document]:
        """Return the documents without repetitions."""
        vectors = self.embeddings.embed_documents([one.page_content for one in documents])
        places: list[int] = []
        for place, vector in enumerate(vectors):
            if all(_cosine(vector, vectors[one]) <= self.similarity_threshold for one in places):
                places.append(place)
        return [documents[place] for place in places]


class LongContextReorder(BaseDocumentTransformer):
    """Puts the best documents first and last, and the worst in the middle, where models read least."""

    __repr__ = short_repr

    def transform_documents(
        self, documents: Sequence[Document], **kwargs: object
    ) -> list[Document]:
        """Return the documents in the other order; they come best first."""
        ordered: list[Document] = []
        for place, document in enumerate(reversed(documents)):
            ordered.insert(len(ordered) if place % 2 else 0, document)
        return ordered
