"""Question answering over a retriever.

The old chains (`RetrievalQA`, `ConversationalRetrievalChain`) and the runnables that replaced them
(`create_retrieval_chain` and its parts).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from foldline._run import Run
from foldline.chains._legacy_calls import Values
from foldline.chains.base import GeneratorChain
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


class RetrievalQA(GeneratorChain):
    """Answers a question from the documents of a retriever."""

    combine_documents_chain: BaseCombineDocumentsChain
    retriever: Runnable[Any, Any]
    input_key: str = "query"
    output_key: str = "result"
    return_source_documents: bool = False
    """Also return the documents, as `source_documents`."""

    @classmethod
    def from_chain_type(
        cls, llm: Runnable[Any, Any], chain_type: str = "stuff", **kwargs: Any
    ) -> RetrievalQA:
        """Make the chain for a model: "stuff", "map_reduce" or "refine"."""
        documents_chain = load_qa_chain(llm, chain_type, **kwargs.pop("chain_type_kwargs", {}))
        return cls(combine_documents_chain=documents_chain, **kwargs)

    @classmethod
    def from_llm(cls, llm: Runnable[Any, Any], **kwargs: Any) -> RetrievalQA:
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
        """The answer, and the documents if `return_source_documents`."""
        return [self.output_key, *(["source_documents"] if self.return_source_documents else [])]

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        question = inputs[self.input_key]
        documents = await self.retriever._step(question, run.child())
        answer = ask_documents_chain(
            self.combine_documents_chain, documents, question, run, stream=stream
        )
        async with aclosing(answer):
            async for piece in answer:
                yield {self.output_key: piece}
        if self.return_source_documents:
            yield {"source_documents": documents}


async def ask_documents_chain(
    chain: BaseCombineDocumentsChain,
    documents: list[Document],
    question: str,
    run: Run,
    *,
    stream: bool,
    prompt_values: Values | None = None,
) -> AsyncGenerator[str, None]:
    """Run a documents chain as a child run; `prompt_values` are further inputs of its prompt."""
    child = run.child().patched(kwargs={"return_only_outputs": True})
    inputs = {**(prompt_values or {}), chain.input_key: documents, "question": question}
    if stream:
        async with aclosing(chain._step_stream(inputs, child)) as pieces:
            async for piece in pieces:
                yield piece[chain.output_key]
    else:
        yield (await chain._step(inputs, child))[chain.output_key]


class ConversationalRetrievalChain(GeneratorChain):
    """Answers the next question of a conversation from the documents of a retriever."""

    retriever: Runnable[Any, Any]
    combine_docs_chain: BaseCombineDocumentsChain
    question_generator: LLMChain
    """Rewrites a question so that it can be understood without the conversation."""
    output_key: str = "answer"
    return_source_documents: bool = False
    return_generated_question: bool = False
    rephrase_question: bool = True
    """Ask the model the rewritten question (True) or the original one (False)."""

    @classmethod
    def from_llm(
        cls, llm: Runnable[Any, Any], retriever: Runnable[Any, Any], **kwargs: Any
    ) -> ConversationalRetrievalChain:
        """Make the chain for a model and a retriever."""
        prompt = kwargs.pop("condense_question_prompt", CONDENSE_PROMPT)
        documents_chain = load_qa_chain(
            llm, kwargs.pop("chain_type", "stuff"), **kwargs.pop("combine_docs_chain_kwargs", {})
        )
        generator = LLMChain(llm=kwargs.pop("condense_question_llm", llm), prompt=prompt)
        return cls(
            retriever=retriever,
            combine_docs_chain=documents_chain,
            question_generator=generator,
            **kwargs,
        )

    @property
    def _chain_type(self) -> str:
        return "conversational_retrieval"

    @property
    def input_keys(self) -> list[str]:
        """The question and the earlier conversation."""
        return ["question", "chat_history"]

    @property
    def output_keys(self) -> list[str]:
        """The answer, and the documents and the rewritten question where the options ask for them."""
        sources = ["source_documents"] if self.return_source_documents else []
        question = ["generated_question"] if self.return_generated_question else []
        return [self.output_key, *sources, *question]

    async def _rewrite_question(self, inputs: Values, run: Run) -> str:
        history = _history_text(inputs["chat_history"])
        if not history:
            return str(inputs["question"])
        child = run.child().patched(kwargs={"return_only_outputs": True})
        generator_inputs = {"question": inputs["question"], "chat_history": history}
        answer = await self.question_generator._step(generator_inputs, child)
        return str(answer[self.question_generator.output_key])

    async def _work(
        self, inputs: Values, run: Run, *, stream: bool
    ) -> AsyncGenerator[Values, None]:
        standalone = await self._rewrite_question(inputs, run)
        documents = await self.retriever._step(standalone, run.child())
        question = standalone if self.rephrase_question else inputs["question"]
        prompt_values = {**inputs, "chat_history": _history_text(inputs["chat_history"])}
        answer = ask_documents_chain(
            self.combine_docs_chain,
            documents,
            question,
            run,
            stream=stream,
            prompt_values=prompt_values,
        )
        async with aclosing(answer):
            async for piece in answer:
                yield {self.output_key: piece}
        if self.return_source_documents:
            yield {"source_documents": documents}
        if self.return_generated_question:
            yield {"generated_question": standalone}


def _history_text(history: str | Sequence[BaseMessage | tuple[str, str]]) -> str:
    if isinstance(history, str):
        return history
    messages = [message for message in history if isinstance(message, BaseMessage)]
    if len(messages) == len(history):
        return get_buffer_string(messages)
    pairs = [pair for pair in history if not isinstance(pair, BaseMessage)]
    return "\n".join(f"Human: {human}\nAI: {ai}" for human, ai in pairs)


def create_stuff_documents_chain(
    llm: Runnable[Any, Any],
    prompt: BasePromptTemplate[Any],
    *,
    output_parser: BaseOutputParser[Any] | None = None,
    document_prompt: BasePromptTemplate[Any] | None = None,
    document_separator: str = "\n\n",
    document_variable_name: str = "context",
) -> Runnable[Values, Any]:
    """Make a runnable that puts documents into a prompt and calls a model."""
    if document_variable_name not in prompt.input_variables:
        raise UsageError(
            f"the prompt has no variable {document_variable_name!r}; it has {prompt.input_variables}"
        )
    template = document_prompt or DOCUMENT_PROMPT

    def format_documents(inputs: Values) -> str:
        return document_separator.join(
            format_document(document, template) for document in inputs[document_variable_name]
        )

    inputs_with_text = RunnablePassthrough.assign(
        **{document_variable_name: RunnableLambda(format_documents, name="format_docs")}
    )
    chain = inputs_with_text | prompt | llm | (output_parser or StrOutputParser())
    return chain.with_config(run_name="stuff_documents_chain")


def create_history_aware_retriever(
    llm: Runnable[Any, Any], retriever: Runnable[Any, Any], prompt: BasePromptTemplate[Any]
) -> Runnable[Values, list[Document]]:
    """Make a retriever that first lets the model rewrite the input if there is a `chat_history`."""
    if "input" not in prompt.input_variables:
        raise UsageError(f"the prompt has no variable 'input'; it has {prompt.input_variables}")
    direct_retriever: Runnable[Any, Any] = (
        RunnableLambda(lambda inputs: inputs["input"]) | retriever
    )
    rewriting_retriever = prompt | llm | StrOutputParser() | retriever
    branch: Runnable[Any, Any] = RunnableBranch(
        (lambda inputs: not inputs.get("chat_history"), direct_retriever), rewriting_retriever
    )
    return branch.with_config(run_name="chat_retriever_chain")


def create_retrieval_chain(
    retriever: Runnable[Any, Any], combine_docs_chain: Runnable[Values, Any]
) -> Runnable[Values, Values]:
    """Make a runnable that finds documents for `input` and answers; it adds `context` and `answer` to the inputs."""
    from foldline.retrievers import BaseRetriever  # noqa: PLC0415  loaded only when this chain is built

    document_retriever: Runnable[Any, Any] = retriever
    if isinstance(retriever, BaseRetriever):
        document_retriever = RunnableLambda(lambda inputs: inputs["input"]) | retriever
    context_chain = RunnablePassthrough.assign(
        context=document_retriever.with_config(run_name="retrieve_documents")
    )
    return (context_chain | RunnablePassthrough.assign(answer=combine_docs_chain)).with_config(
        run_name="retrieval_chain"
    )
