"""Question answering over a retriever.

The old chains (`RetrievalQA`, `ConversationalRetrievalChain`) and the runnables that replaced them
(`create_retrieval_chain` and its parts).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from foldline._run import Run
from foldline.chains.base import Chain, Values
from foldline.chains.documents import DOCUMENT_PROMPT, BaseCombineDocumentsChain, load_qa_chain
from foldline.chains.llm import LLMChain
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.messages import BaseMessage, get_buffer_string
from foldline.output_parsers import BaseOutputParser, StrOutputParser
from foldline.prompts import BasePromptTemplate, PromptTemplate, format_document
from foldline.runnables import RunnableBranch, RunnableLambda, RunnablePassthrough
from foldline.runnables.base import Runnable

__all__ = [
    "ConversationalRetrievalChain",
    "RetrievalQA",
    "create_history_aware_retriever",
    "create_retrieval_chain",
    "create_stuff_documents_chain",
]

CONDENSE_PROMPT = PromptTemplate.from_template(
    "Rewrite the last question so that it can be understood without the conversation. Answer with the question alone."
    "\n\n{chat_history}\nQuestion: {question}\nRewritten question:"
)


class RetrievalQA(Chain):
    """Answers a question from what a retriever finds."""

    combine_documents_chain: BaseCombineDocumentsChain
    retriever: Runnable[Any, Any]
    input_key: str = "query"
    output_key: str = "result"
    return_source_documents: bool = False
    """Also give what was found, as `source_documents`."""

    @classmethod
    def from_chain_type(cls, llm: Any, chain_type: str = "stuff", **kwargs: Any) -> RetrievalQA:
        """Make the chain for a model: "stuff", "map_reduce" or "refine"."""
        combine = load_qa_chain(llm, chain_type, **kwargs.pop("chain_type_kwargs", {}))
        return cls(combine_documents_chain=combine, **kwargs)

    @classmethod
    def from_llm(cls, llm: Any, **kwargs: Any) -> RetrievalQA:
        """Make the chain for a model."""
        return cls.from_chain_type(llm, **kwargs)

    @property
    def _chain_type(self) -> str:
        return "retrieval_qa"

    @property
    def input_keys(self) -> list[str]:
        """The question."""
        return [self.input_key]

    @property
    def output_keys(self) -> list[str]:
        """The answer, and what was found where it is asked for."""
        return [self.output_key, *(["source_documents"] if self.return_source_documents else [])]

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        question = inputs[self.input_key]
        documents = await self.retriever._step(question, run.child())
        answer = answered(self.combine_documents_chain, documents, question, run, stream=stream)
        async with aclosing(answer):
            async for piece in answer:
                yield {self.output_key: piece}
        if self.return_source_documents:
            yield {"source_documents": documents}


async def answered(
    chain: BaseCombineDocumentsChain,
    documents: list[Document],
    question: str,
    run: Run,
    *,
    stream: bool,
    others: Values | None = None,
) -> AsyncGenerator[str, None]:
    """Ask a documents chain as a run of its own; `others` are inputs that its prompt may take besides."""
    child = run.child().patched(kwargs={"return_only_outputs": True})
    inputs = {**(others or {}), chain.input_key: documents, "question": question}
    if stream:
        async with aclosing(chain._step_stream(inputs, child)) as pieces:
            async for piece in pieces:
                yield piece[chain.output_key]
    else:
        yield (await chain._step(inputs, child))[chain.output_key]


class ConversationalRetrievalChain(Chain):
    """Answers the next question of a conversation from what a retriever finds."""

    retriever: Runnable[Any, Any]
    combine_docs_chain: BaseCombineDocumentsChain
    question_generator: LLMChain
    """Rewrites a question so that it stands alone."""
    output_key: str = "answer"
    return_source_documents: bool = False
    return_generated_question: bool = False
    rephrase_question: bool = True
    """Ask the model the rewritten question, or the one that was said."""

    @classmethod
    def from_llm(
        cls, llm: Any, retriever: Runnable[Any, Any], **kwargs: Any
    ) -> ConversationalRetrievalChain:
        """Make the chain for a model and a retriever."""
        prompt = kwargs.pop("condense_question_prompt", CONDENSE_PROMPT)
        combine = load_qa_chain(
            llm, kwargs.pop("chain_type", "stuff"), **kwargs.pop("combine_docs_chain_kwargs", {})
        )
        generator = LLMChain(llm=kwargs.pop("condense_question_llm", llm), prompt=prompt)
        return cls(
            retriever=retriever, combine_docs_chain=combine, question_generator=generator, **kwargs
        )

    @property
    def _chain_type(self) -> str:
        return "conversational_retrieval"

    @property
    def input_keys(self) -> list[str]:
        """The question and the conversation before it."""
        return ["question", "chat_history"]

    @property
    def output_keys(self) -> list[str]:
        """The answer, and what else is asked for."""
        sources = ["source_documents"] if self.return_source_documents else []
        question = ["generated_question"] if self.return_generated_question else []
        return [self.output_key, *sources, *question]

    async def _standalone(self, inputs: Values, run: Run) -> str:
        history = _history_text(inputs["chat_history"])
        if not history:
            return str(inputs["question"])
        child = run.child().patched(kwargs={"return_only_outputs": True})
        asked = {"question": inputs["question"], "chat_history": history}
        answer = await self.question_generator._step(asked, child)
        return str(answer[self.question_generator.output_key])

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        standalone = await self._standalone(inputs, run)
        documents = await self.retriever._step(standalone, run.child())
        question = standalone if self.rephrase_question else inputs["question"]
        others = {**inputs, "chat_history": _history_text(inputs["chat_history"])}
        answer = answered(
            self.combine_docs_chain, documents, question, run, stream=stream, others=others
        )
        async with aclosing(answer):
            async for piece in answer:
                yield {self.output_key: piece}
        if self.return_source_documents:
            yield {"source_documents": documents}
        if self.return_generated_question:
            yield {"generated_question": standalone}


def _history_text(history: Any) -> str:
    if isinstance(history, str):
        return history
    if all(isinstance(one, BaseMessage) for one in history):
        text: str = get_buffer_string(history)
        return text
    return "\n".join(f"Human: {human}\nAI: {ai}" for human, ai in history)


def create_stuff_documents_chain(
    llm: Runnable[Any, Any],
    prompt: BasePromptTemplate[Any],
    *,
    output_parser: BaseOutputParser[Any] | None = None,
    document_prompt: BasePromptTemplate[Any] | None = None,
    document_separator: str = "\n\n",
    document_variable_name: str = "context",
) -> Runnable[Values, Any]:
    """Make a runnable that puts documents into a prompt and asks a model."""
    if document_variable_name not in prompt.input_variables:
        raise UsageError(
            f"the prompt has no variable {document_variable_name!r}; it has {prompt.input_variables}"
        )
    shape = document_prompt or DOCUMENT_PROMPT

    def shown(inputs: Values) -> str:
        return document_separator.join(
            format_document(one, shape) for one in inputs[document_variable_name]
        )

    filled = RunnablePassthrough.assign(
        **{document_variable_name: RunnableLambda(shown, name="format_docs")}
    )
    chain = filled | prompt | llm | (output_parser or StrOutputParser())
    return chain.with_config(run_name="stuff_documents_chain")


def create_history_aware_retriever(
    llm: Runnable[Any, Any], retriever: Runnable[Any, Any], prompt: BasePromptTemplate[Any]
) -> Runnable[Values, list[Document]]:
    """Make a retriever that first rewrites the input in the light of `chat_history`, where there is one."""
    if "input" not in prompt.input_variables:
        raise UsageError(f"the prompt has no variable 'input'; it has {prompt.input_variables}")
    plain: Runnable[Any, Any] = RunnableLambda(lambda inputs: inputs["input"]) | retriever
    rewritten = prompt | llm | StrOutputParser() | retriever
    branch: Runnable[Any, Any] = RunnableBranch(
        (lambda inputs: not inputs.get("chat_history"), plain), rewritten
    )
    return branch.with_config(run_name="chat_retriever_chain")


def create_retrieval_chain(
    retriever: Runnable[Any, Any], combine_docs_chain: Runnable[Values, Any]
) -> Runnable[Values, Values]:
    """Make a runnable that finds documents for `input` and answers: gives `context` and `answer` beside the inputs."""
    from foldline.retrievers import BaseRetriever  # noqa: PLC0415  a retriever takes text, a runnable takes the inputs

    find: Runnable[Any, Any] = retriever
    if isinstance(retriever, BaseRetriever):
        find = RunnableLambda(lambda inputs: inputs["input"]) | retriever
    chain = RunnablePassthrough.assign(context=find.with_config(run_name="retrieve_documents"))
    return (chain | RunnablePassthrough.assign(answer=combine_docs_chain)).with_config(
        run_name="retrieval_chain"
    )
