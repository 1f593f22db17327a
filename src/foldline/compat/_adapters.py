"""Adapters: classes of one library around objects of the other.

Each kind is written once, for both directions: both libraries let a class override `invoke`, `_generate` or
`_get_relevant_documents`. A part (a plain class here) holds the methods; `_make` joins it with the base class of the
library that the adapter belongs to.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, PrivateAttr

from foldline.exceptions import UnsupportedError

if TYPE_CHECKING:
    from foldline.compat.convert import Direction


class ParentRunManager(Protocol):
    """The run managers of both libraries, sync and async."""

    def get_child(self) -> object:
        """Return the callbacks of a run inside this one."""

    @property
    def on_llm_new_token(self) -> Callable[..., Any]:
        """Report a token."""


class Adapter:
    """An adapter around an object of the other library, with the conversions to that library and back."""

    _adapted: Any
    _direction: Direction

    @property
    def adapted_object(self) -> object:
        """The object of the other library that this calls."""
        return self._adapted

    def _out(self, value: object) -> Any:  # noqa: ANN401  an object of this adapter's library
        """Convert what the object returned to this adapter's library."""
        return self._direction.convert(value)

    def _in(self, value: object) -> Any:  # noqa: ANN401  an object of the other library
        """Convert what this adapter was called with to the object's library."""
        return self._direction.reverse.convert(value)

    def _config(self, config: Mapping[str, Any] | None) -> dict[str, Any]:
        """Convert a config: its handlers are adapted, and runs keep their parent."""
        options: dict[str, Any] = dict(config or {})
        if options.get("callbacks") is not None:
            options["callbacks"] = self._in(options["callbacks"])
        return options

    def _alone(self) -> dict[str, Any]:
        """Return the config of a call without callbacks: the adapter's own run reports to them."""
        return {"callbacks": [] if self._direction.source == "foldline" else None}

    def _child_config(self, run_manager: ParentRunManager | None) -> dict[str, Any]:
        """Return the config of a call inside a run."""
        return self._config({"callbacks": run_manager.get_child() if run_manager else None})


class RunnableAdapter(Adapter):
    """A runnable of the other library."""

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the name of the runnable."""
        return str(self._adapted.get_name(suffix, name=name))

    @property
    def InputType(self) -> object:
        """The type of the input."""
        return self._adapted.InputType

    @property
    def OutputType(self) -> object:
        """The type of the output."""
        return self._adapted.OutputType

    def invoke(
        self, input: object, config: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> object:
        """Run once."""
        return self._out(self._adapted.invoke(self._in(input), self._config(config), **kwargs))

    async def ainvoke(
        self, input: object, config: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> object:
        """Run once."""
        return self._out(
            await self._adapted.ainvoke(self._in(input), self._config(config), **kwargs)
        )

    def stream(
        self, input: object, config: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Run once and stream the output."""
        yield from map(
            self._out, self._adapted.stream(self._in(input), self._config(config), **kwargs)
        )

    async def astream(
        self, input: object, config: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Run once and stream the output."""
        pieces = self._adapted.astream(self._in(input), self._config(config), **kwargs)
        async for piece in pieces:
            yield self._out(piece)

    def transform(
        self, input: Iterator[Any], config: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Run on a stream of input."""
        pieces = self._adapted.transform(map(self._in, input), self._config(config), **kwargs)
        yield from map(self._out, pieces)

    async def atransform(
        self, input: AsyncIterator[Any], config: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Run on a stream of input."""
        inputs = (self._in(item) async for item in input)
        async for piece in self._adapted.atransform(inputs, self._config(config), **kwargs):
            yield self._out(piece)


class ChatModelAdapter(Adapter):
    """A chat model of the other library."""

    @property
    def _llm_type(self) -> str:
        return str(self._adapted._llm_type)

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return dict(self._adapted._identifying_params)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> object:
        return self._adapted._get_ls_params(stop=stop, **kwargs)

    def _result(self, result: Any) -> object:  # noqa: ANN401  an `LLMResult` of either library
        first = self._out(result.generations[0])
        output = self._direction.target_class("outputs", "ChatResult")
        return output(generations=first, llm_output=result.llm_output)

    def _generate(
        self,
        messages: object,
        stop: list[str] | None = None,
        run_manager: ParentRunManager | None = None,
        **kwargs: Any,
    ) -> object:
        result = self._adapted.generate([self._in(messages)], stop=stop, **self._alone(), **kwargs)
        return self._result(result)

    async def _agenerate(
        self,
        messages: object,
        stop: list[str] | None = None,
        run_manager: ParentRunManager | None = None,
        **kwargs: Any,
    ) -> object:
        messages = self._in(messages)
        result = await self._adapted.agenerate([messages], stop=stop, **self._alone(), **kwargs)
        return self._result(result)

    def _chunk(self, message: object) -> Any:  # noqa: ANN401  a `ChatGenerationChunk` of this adapter's library
        chunk = self._direction.target_class("outputs", "ChatGenerationChunk")
        return chunk(message=self._out(message))

    def _stream(
        self,
        messages: object,
        stop: list[str] | None = None,
        run_manager: ParentRunManager | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        for piece in self._adapted.stream(self._in(messages), self._alone(), stop=stop, **kwargs):
            chunk = self._chunk(piece)
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: object,
        stop: list[str] | None = None,
        run_manager: ParentRunManager | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        pieces = self._adapted.astream(self._in(messages), self._alone(), stop=stop, **kwargs)
        async for piece in pieces:
            chunk = self._chunk(piece)
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def bind_tools(self, tools: Iterable[object], **kwargs: Any) -> object:
        """Bind tools of either library."""
        bound = self._adapted.bind_tools(self._in(list(tools)), **self._in(kwargs))
        if getattr(bound, "bound", None) is self._adapted:
            return self.bind(**bound.kwargs)  # type: ignore[attr-defined]  # of the base class
        return self._out(bound)

    def with_structured_output(self, schema: object = None, **kwargs: Any) -> object:
        """Return a runnable that answers in the form of a schema, made by the model itself."""
        return self._out(self._adapted.with_structured_output(schema, **kwargs))

    def get_num_tokens(self, text: str) -> int:
        """Count the tokens of a text."""
        return int(self._adapted.get_num_tokens(text))

    def get_num_tokens_from_messages(
        self, messages: object, tools: Iterable[object] | None = None, **kwargs: Any
    ) -> int:
        """Count the tokens of messages."""
        if tools is not None:
            kwargs["tools"] = self._in(list(tools))
        count = self._adapted.get_num_tokens_from_messages(self._in(messages), **kwargs)
        return int(count)


class TextModelAdapter(Adapter):
    """A text model of the other library."""

    @property
    def _llm_type(self) -> str:
        return str(self._adapted._llm_type)

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return dict(self._adapted._identifying_params)

    def _generate(
        self,
        prompts: object,
        stop: list[str] | None = None,
        run_manager: ParentRunManager | None = None,
        **kwargs: Any,
    ) -> object:
        return self._out(self._adapted.generate(prompts, stop=stop, **self._alone(), **kwargs))

    async def _agenerate(
        self,
        prompts: object,
        stop: list[str] | None = None,
        run_manager: ParentRunManager | None = None,
        **kwargs: Any,
    ) -> object:
        return self._out(
            await self._adapted.agenerate(prompts, stop=stop, **self._alone(), **kwargs)
        )

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: ParentRunManager | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        chunk = self._direction.target_class("outputs", "GenerationChunk")
        for piece in self._adapted.stream(prompt, self._alone(), stop=stop, **kwargs):
            if run_manager:
                run_manager.on_llm_new_token(piece, chunk=chunk(text=piece))
            yield chunk(text=piece)

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: ParentRunManager | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        chunk = self._direction.target_class("outputs", "GenerationChunk")
        async for piece in self._adapted.astream(prompt, self._alone(), stop=stop, **kwargs):
            if run_manager:
                await run_manager.on_llm_new_token(piece, chunk=chunk(text=piece))
            yield chunk(text=piece)


class ToolAdapter(Adapter):
    """A tool of the other library. It checks its arguments and reports its run itself."""

    def invoke(
        self, input: object, config: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> object:
        """Run once."""
        return self._out(self._adapted.invoke(self._in(input), self._config(config), **kwargs))

    async def ainvoke(
        self, input: object, config: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> object:
        """Run once."""
        return self._out(
            await self._adapted.ainvoke(self._in(input), self._config(config), **kwargs)
        )

    def run(
        self, tool_input: object, *args: Any, callbacks: object = None, **kwargs: Any
    ) -> object:
        """Run with arguments; the older name."""
        kwargs["config"] = self._config(kwargs.pop("config", None))
        callbacks = self._in(callbacks)
        return self._out(
            self._adapted.run(self._in(tool_input), *args, callbacks=callbacks, **kwargs)
        )

    async def arun(
        self, tool_input: object, *args: Any, callbacks: object = None, **kwargs: Any
    ) -> object:
        """Run with arguments; the older name."""
        kwargs["config"] = self._config(kwargs.pop("config", None))
        callbacks = self._in(callbacks)
        return self._out(
            await self._adapted.arun(self._in(tool_input), *args, callbacks=callbacks, **kwargs)
        )

    def _run(self, *args: Any, **kwargs: Any) -> object:
        return self.invoke(args[0] if args else kwargs)


class RetrieverAdapter(Adapter):
    """A retriever of the other library."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: ParentRunManager | None = None
    ) -> object:
        return self._out(self._adapted.invoke(query, self._child_config(run_manager)))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: ParentRunManager | None = None
    ) -> object:
        return self._out(await self._adapted.ainvoke(query, self._child_config(run_manager)))


class EmbeddingsAdapter(Adapter):
    """Embeddings of the other library."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        vectors: list[list[float]] = self._adapted.embed_documents(texts)
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        vector: list[float] = self._adapted.embed_query(text)
        return vector

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        vectors: list[list[float]] = await self._adapted.aembed_documents(texts)
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        vector: list[float] = await self._adapted.aembed_query(text)
        return vector


class VectorStoreAdapter(Adapter):
    """A vector store of the other library; `STORE_METHODS` are added below."""

    @property
    def embeddings(self) -> object:
        """The embeddings that make the vectors."""
        return self._out(self._adapted.embeddings)

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> object:
        """Raise `UnsupportedError`: make a store with its own library, then adapt it."""
        raise UnsupportedError(
            "an adapter makes no store: make it with its own library's from_texts, then convert it"
        )

    def _select_relevance_score_fn(self) -> object:
        return self._adapted._select_relevance_score_fn()


STORE_METHODS = (
    "add_texts",
    "add_documents",
    "delete",
    "get_by_ids",
    "similarity_search",
    "similarity_search_with_score",
    "similarity_search_by_vector",
    "similarity_search_with_relevance_scores",
    "max_marginal_relevance_search",
    "max_marginal_relevance_search_by_vector",
)


def _store_method(name: str) -> Callable[..., Any]:
    def call(self: VectorStoreAdapter, *args: Any, **kwargs: Any) -> object:
        return self._out(getattr(self._adapted, name)(*self._in(args), **self._in(kwargs)))

    return call


def _async_store_method(name: str) -> Callable[..., Any]:
    async def call(self: VectorStoreAdapter, *args: Any, **kwargs: Any) -> object:
        return self._out(await getattr(self._adapted, name)(*self._in(args), **self._in(kwargs)))

    return call


for _name in STORE_METHODS:
    setattr(VectorStoreAdapter, _name, _store_method(_name))
    setattr(VectorStoreAdapter, f"a{_name}", _async_store_method(f"a{_name}"))


# -- making them


@cache
def _make(part: type[Adapter], base: type[Any]) -> type[Any]:
    """Return a class of adapters that inherits from a library's base class."""
    namespace: dict[str, Any] = {"__module__": __name__, "__doc__": part.__doc__}
    if issubclass(base, BaseModel):
        namespace |= {"_adapted": PrivateAttr(), "_direction": PrivateAttr()}
    return types.new_class(part.__name__, (part, base), {}, lambda body: body.update(namespace))


def _make_adapter(
    part: type[Adapter], base: str, value: object, direction: Direction, fields: dict[str, Any]
) -> object:
    classes: tuple[Any, Any] = (part, direction.target_class(*base.split(".")))
    adapter = _make(*classes)(**fields)
    adapter._adapted = value
    adapter._direction = direction
    return adapter


def _settings(value: object, names: str) -> dict[str, Any]:
    return {name: field for name in names.split() if (field := getattr(value, name, None))}


def adapt_runnable(value: object, direction: Direction) -> object:
    """Adapt a runnable."""
    return _make_adapter(RunnableAdapter, "runnables.Runnable", value, direction, {})


def adapt_chat_model(value: object, direction: Direction) -> object:
    """Adapt a chat model."""
    fields = _settings(value, "tags metadata disable_streaming")
    if profile := getattr(value, "profile", None):
        fields["profile"] = dict(profile)
    base = "language_models.BaseChatModel"
    return _make_adapter(ChatModelAdapter, base, value, direction, fields)


def adapt_text_model(value: object, direction: Direction) -> object:
    """Adapt a text model."""
    fields = _settings(value, "tags metadata")
    return _make_adapter(TextModelAdapter, "language_models.BaseLLM", value, direction, fields)


def adapt_tool(value: Any, direction: Direction) -> object:  # noqa: ANN401  a tool of either library
    """Adapt a tool. It keeps its name, its description and the schema that a model sees."""
    fields = _settings(value, "return_direct tags metadata response_format extras")
    fields |= {
        "name": value.name,
        "description": value.description,
        "args_schema": value.tool_call_schema,
    }
    return _make_adapter(ToolAdapter, "tools.BaseTool", value, direction, fields)


def adapt_retriever(value: object, direction: Direction) -> object:
    """Adapt a retriever."""
    fields = _settings(value, "tags metadata")
    return _make_adapter(RetrieverAdapter, "retrievers.BaseRetriever", value, direction, fields)


def adapt_prompt(value: object, direction: Direction) -> object:
    """Convert a prompt template by serialising it; adapt it as a runnable where that is not possible."""
    dump = direction.source_function("load", "dumps")
    load = direction.target_function("load", "loads")
    options = {"namespace": "langchain"} if direction.source == "foldline" else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LangChain warns that its `loads` may change
            prompt: object = load(dump(value, **options), allowed_objects="core")
            return prompt
    except (ValueError, NotImplementedError, TypeError):  # a class of the user's program
        return adapt_runnable(value, direction)


def adapt_embeddings(value: object, direction: Direction) -> object:
    """Adapt embeddings."""
    return _make_adapter(EmbeddingsAdapter, "embeddings.Embeddings", value, direction, {})


def adapt_vector_store(value: object, direction: Direction) -> object:
    """Adapt a vector store."""
    return _make_adapter(VectorStoreAdapter, "vectorstores.VectorStore", value, direction, {})
