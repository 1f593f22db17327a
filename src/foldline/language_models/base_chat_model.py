"""`BaseChatModel`: messages in, a message out; the public interface of a `ChatCall`.

An author implements one of `_events` (native, best), `_stream_chat_model_events`, `_stream`, `_generate`, or an async
version; every public method works.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, ClassVar, Literal, Self, cast, overload
from uuid import UUID

from pydantic import Field, ValidationInfo, field_validator, model_validator

from foldline._config import RunnableConfig
from foldline._io import ASYNC, BLOCKING
from foldline._io.drive import drive, drive_each
from foldline._run import Run
from foldline._streams.stream import AsyncChatModelStream, ChatModelStream
from foldline._traceback import closing, entry_point
from foldline.callbacks.base import Callbacks
from foldline.callbacks.manager import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from foldline.language_models._call.author import Author, inherited_chunks, inherited_result
from foldline.language_models._call.call import ChatCall
from foldline.language_models._call.generate import generate_each
from foldline.language_models._call.policies.prompt_caching import CacheConfig
from foldline.language_models._call.request import (
    CALL_OPTIONS,
    COMMON_SETTINGS,
    ChatRequest,
    messages_of,
)
from foldline.language_models._call.settings import check_setting, settings_reader
from foldline.language_models.base import BaseLanguageModel, Params, with_stop
from foldline.language_models.count import TokenCount, count_tokens
from foldline.language_models.profile import ModelProfile, find_profile
from foldline.language_models.records._author_records import author_of, call_process
from foldline.language_models.records._record_calls import answer_deltas, answer_record, read_record
from foldline.language_models.records.invoke_options import AgentInvokeOptions
from foldline.language_models.records.parts import ChatModelOutputDelta
from foldline.language_models.records.records import (
    ChatModelInput,
    ChatModelOutput,
    input_of,
    is_record,
)
from foldline.language_models.structured._output import STRUCTURED_OPTIONS, structured_options
from foldline.language_models.structured._tool_binding import Validate, bound_tools
from foldline.language_models.structured.parser import (
    Partial,
    RawAndParsed,
    Schema,
    StructuredParser,
)
from foldline.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage
from foldline.messages._output_version import output_version
from foldline.outputs import ChatGenerationChunk, ChatResult, LLMResult
from foldline.prices.types import check_prices
from foldline.prompt_values import ChatPromptValue, PromptValue, StringPromptValue
from foldline.runnables import _trace
from foldline.runnables._call_options import check_options
from foldline.runnables._stream_call import StreamCall
from foldline.runnables.base import Runnable
from foldline.utils._spelling import in_snake_case

__all__ = ["BaseChatModel"]

SETTINGS = (
    "model_options", "hooks", "guards", "file_resolver", "output_file_type", "max_input_tokens", "prompt_cache",
    "guard_mode", "output_dir", "on_overflow", "on_unsupported",
)  # fmt: skip
"""The fields that a managed call reads: see `_call.settings`."""


class BaseChatModel(BaseLanguageModel[AIMessage, AIMessageChunk], ABC):
    """A model that answers messages with a message.

    ```python
    from foldline.language_models import FakeListChatModel

    print(FakeListChatModel(responses=["Hello!"]).invoke("Hi").text)
    #> Hello!
    ```
    """

    disable_streaming: bool | Literal["tool_calling"] = False
    """True: stream methods return the complete answer at once. "tool_calling": only when there are tools."""
    output_version: str | None = Field(default=None)
    """The form of `content`: "v0" (text as a string if nothing is lost) or "v1" (always content blocks).

    If it is not set, an environment variable may set it at the first call."""

    # -- the settings of a managed call

    profile: ModelProfile | None = Field(default=None, exclude=True, repr=False)
    """What the model can do; looked up by its provider and name if you do not set it."""
    file_resolver: Any = Field(default=None, exclude=True, repr=False)
    """`FileResolver`: which files and URLs in messages may be read. None: none."""
    output_file_type: Literal["local", "file", "url"] | None = Field(
        default=None, exclude=True, repr=False
    )
    """The form of files in an answer: written to `output_dir`, as base64, or as URLs."""
    output_dir: Any = Field(default=None, exclude=True, repr=False)
    """The folder for files of an answer (`output_file_type`)."""
    on_overflow: Literal["raise", "trim"] | None = Field(default=None, exclude=True, repr=False)
    """What to do with a longer one: raise (the default), or drop the oldest messages."""
    on_unsupported: Literal["warn", "raise"] | None = Field(default=None, exclude=True, repr=False)
    """What to do with an option that the model does not support: drop it with a warning (the default), or raise."""
    prompt_cache: Any = Field(default=None, exclude=True, repr=False)
    """`CacheConfig`, or True: where marks for the provider's prompt cache are set automatically."""

    @model_validator(mode="before")
    @classmethod
    def _read_camel_case(cls, values: object) -> object:
        """Accept the options of the constructor in camelCase too: `retryOnError` is `retry_on_error`."""
        return in_snake_case(cls.model_fields, values)

    @field_validator("prompt_cache")
    @classmethod
    def _check_prompt_cache(cls, value: Any) -> object:  # noqa: ANN401  of any kind that it takes
        CacheConfig.of(value)
        return value

    @field_validator("output_version", "file_resolver", "output_dir", "profile")
    @classmethod
    def _check_chat_setting(cls, value: object, info: ValidationInfo) -> object:
        return check_setting(str(info.field_name), value, cls.__name__)

    @model_validator(mode="after")
    def _set_model_profile(self) -> Self:
        if self.profile is not None:
            if "prices" in self.profile:
                check_prices(self.profile["prices"], f"{type(self).__name__}(profile=…)")
        else:
            profile = self._resolve_model_profile()
            if profile is not None:
                self.__dict__["profile"] = profile  # not as a field that the caller set
        return self

    def _resolve_model_profile(self) -> ModelProfile | None:
        """Return the profile of this model; a provider may override it."""
        return find_profile(self._provider, self._model_name)

    # -- methods for authors: implement one of these

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = ChatRequest(messages, stop, kwargs)
        return drive(inherited_result(self, request, Run.blocking(), "_generate"))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = ChatRequest(messages, stop, kwargs)
        return await inherited_result(self, request, Run.asynchronous(), "_agenerate")

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        request = ChatRequest(messages, stop, kwargs, stream=True)
        return drive_each(inherited_chunks(self, request, Run.blocking(), "_stream"))

    def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = ChatRequest(messages, stop, kwargs, stream=True)
        return inherited_chunks(self, request, Run.asynchronous(), "_astream")

    # -- methods for authors in AIGNE's style, with records (`foldline.language_models.ChatModel`)

    def preprocess(self, input: ChatModelInput, options: AgentInvokeOptions) -> object:
        """Inspect the record before the model is called; return another, or None. May be async."""
        return None

    def process(self, input: ChatModelInput, options: AgentInvokeOptions | None = None) -> Any:  # noqa: ANN401  a record, deltas, or an awaitable of them, as the author returns
        """Call the model once: a record in, a record out, no retries and no policies. A subclass may override it."""
        return drive(call_process(self, input, options, Run.blocking()))

    async def aprocess(
        self, input: ChatModelInput, options: AgentInvokeOptions | None = None
    ) -> object:
        """Call the model once: a record in, a record out, no retries and no policies. A subclass may override it."""
        return await call_process(self, input, options, Run.asynchronous())

    def postprocess(
        self, input: ChatModelInput, output: ChatModelOutput, options: AgentInvokeOptions
    ) -> object:
        """Inspect the answer before the caller gets it; return another, or None. May be async."""
        return None

    # -- methods that a call uses

    def _request(self, value: object, run: Run, *, stream: bool) -> ChatRequest:
        options = dict(run.kwargs)
        if type(value) is ChatPromptValue:
            messages = list(value.messages)
        elif type(value) is not str and type(value) is not list and is_record(value):
            record, record_options, _ = read_record(self, value, options)
            messages, options = record.messages, {**record_options, **options}
        else:
            messages = messages_of(value)
        stop = options.pop("stop", None)
        if type(stop) is str:
            stop = [stop]
        streams = stream or self.__dict__.get("streaming") is True
        if "stream" in options:  # an option of the call, as in LangChain
            streams = bool(options.pop("stream")) or stream
        streams = streams and not self._streaming_disabled(options)
        if options:
            check_options(self, options)
        return ChatRequest(messages, stop, options, streams)

    def _option_names(self) -> Iterable[str]:
        return (*type(self).model_fields, *COMMON_SETTINGS, *CALL_OPTIONS)

    def _accepts_option(self, name: str) -> bool:
        plain = name.replace("_", "").lower()  # modelOptions is a spelling, not a mistake
        return any(plain == option.replace("_", "").lower() for option in self._option_names())

    _settings = property(settings_reader(*SETTINGS))

    @property
    def _profile(self) -> ModelProfile | None:
        return self.profile

    def _streaming_disabled(self, options: Params) -> bool:
        if self.disable_streaming is True:
            return True
        return self.disable_streaming == "tool_calling" and bool(options.get("tools"))

    _prefers_strict: ClassVar[bool] = False
    """Whether a schema that can be closed is sent as strict unless the caller sets `strict`."""

    @property
    def _author(self) -> Author:
        """The methods that the author of this class wrote."""
        return author_of(type(self))

    @property
    def _output_version(self) -> Literal["v0", "v1"]:
        # Read from the environment at the first call and stored: reading it for every call would be slow.
        fields = self.__dict__
        if fields["output_version"] is not None:
            return output_version(fields["output_version"])
        if "_default_version" not in fields:
            fields["_default_version"] = output_version()
        return cast('Literal["v0", "v1"]', fields["_default_version"])

    def _ls_type(self) -> str:
        return "chat"

    def _convert_input(self, model_input: object) -> PromptValue:
        if isinstance(model_input, PromptValue):
            return model_input
        if isinstance(model_input, str):
            return StringPromptValue(text=model_input)
        messages = input_of(model_input).messages if is_record(model_input) else None
        return ChatPromptValue(messages=messages or messages_of(model_input))

    @property
    def OutputType(self) -> object:
        """A message."""
        return AnyMessage

    # -- views of a call

    def _invoke_traced(self, input: object, run: Run) -> Coroutine[Any, Any, AIMessage]:
        return ChatCall(self, input, run, stream=False).answer_once()

    def _stream_traced(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        return ChatCall(self, input, run, stream=True).chunks()

    async def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        input = await _trace.add_up(inputs)
        if input is _trace.NOTHING:
            return
        async with closing(self._stream_traced(input, run)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _open_stream_v2(self, call: StreamCall) -> ChatModelStream | AsyncChatModelStream:
        chat_call = ChatCall.of_stream_call(self, call)
        return ChatModelStream(chat_call) if call.io.blocking else AsyncChatModelStream(chat_call)

    # -- tools, structured output, counting, records

    @entry_point
    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: object = None,
        parallel_tool_calls: bool | None = None,
        strict: bool | None = None,
        validate: Validate = "off",
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage, AIMessageChunk]:
        """Bind tools to the model: functions, `@tool` objects, Pydantic models, TypedDicts, schemas, provider tools.

        `validate="invalid"` marks calls of unknown tools and calls with invalid arguments as invalid;
        `"retry"` calls the model again, with what was wrong.
        """
        options = bound_tools(
            tools,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            strict=strict,
            validate=validate,
        )
        if kwargs:
            check_options(self, kwargs, "validate")
        return self.bind(**options, **kwargs)

    @overload
    def with_structured_output(
        self,
        schema: type[Schema],
        *,
        method: str = "auto",
        include_raw: Literal[False] = False,
        strict: bool | None = None,
        max_retries: int = 0,
        repair: bool = True,
        tools: Sequence[Any] | None = None,
        validate: Literal["fields", "end"] = "fields",
        **kwargs: Any,
    ) -> Runnable[Any, Schema, Schema | Partial[Schema]]: ...
    @overload
    def with_structured_output(
        self,
        schema: type[Schema],
        *,
        method: str = "auto",
        include_raw: Literal[True],
        strict: bool | None = None,
        max_retries: int = 0,
        repair: bool = True,
        tools: Sequence[Any] | None = None,
        validate: Literal["fields", "end"] = "fields",
        **kwargs: Any,
    ) -> Runnable[Any, RawAndParsed[Schema]]: ...
    @overload
    def with_structured_output(
        self,
        schema: Mapping[str, Any] | None = None,
        *,
        method: str = "auto",
        include_raw: bool = False,
        strict: bool | None = None,
        max_retries: int = 0,
        repair: bool = True,
        tools: Sequence[Any] | None = None,
        validate: Literal["fields", "end"] = "fields",
        **kwargs: Any,
    ) -> Runnable[Any, Params]: ...
    @entry_point
    def with_structured_output(
        self,
        schema: Any = None,
        *,
        method: str = "auto",
        include_raw: bool = False,
        strict: bool | None = None,
        max_retries: int = 0,
        repair: bool = True,
        tools: Sequence[Any] | None = None,
        validate: Literal["fields", "end"] = "fields",
        **kwargs: Any,
    ) -> Runnable[Any, Any]:
        """Return a runnable whose output fits a schema: a Pydantic model, dataclass, TypedDict or JSON Schema.

        `max_retries` calls the model again, with what was wrong. With `include_raw` the output is `{"raw": message,
        "parsed": object, "parsing_error": error}`. Without a schema, `method="json_mode"` asks for any JSON object. A
        stream yields `Partial` objects first, and ends as soon as a field is wrong unless `validate="end"`.
        """
        options, check = structured_options(
            schema,
            self.profile,
            method=method,
            include_raw=include_raw,
            strict=strict,
            max_retries=max_retries,
            repair=repair,
            tools=tools,
            validate=validate,
            prefers_strict=self._prefers_strict,
        )
        if kwargs:
            check_options(self, kwargs, *STRUCTURED_OPTIONS)
        return self.bind(**options, **kwargs) | StructuredParser(check, include_raw=include_raw)

    def count_tokens(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the number of tokens of messages and tools, and whether it is exact. Opens no socket."""
        return count_tokens(self, messages, tools)

    @overload
    def run(
        self,
        input: ChatModelInput | Mapping[str, Any],
        config: RunnableConfig | None = None,
        *,
        streaming: Literal[False] = False,
        **kwargs: Any,
    ) -> ChatModelOutput: ...
    @overload
    def run(
        self,
        input: ChatModelInput | Mapping[str, Any],
        config: RunnableConfig | None = None,
        *,
        streaming: Literal[True],
        **kwargs: Any,
    ) -> Iterator[ChatModelOutputDelta]: ...
    def run(
        self,
        input: ChatModelInput | Mapping[str, Any],
        config: RunnableConfig | None = None,
        *,
        streaming: bool = False,
        **kwargs: Any,
    ) -> ChatModelOutput | Iterator[ChatModelOutputDelta]:
        """Answer a `ChatModelInput` with a `ChatModelOutput`, or with delta records that add up to one."""
        run = Run.blocking(config, kwargs)
        if streaming:
            return drive_each(answer_deltas(self, input, run))
        return drive(answer_record(self, input, run))

    @overload
    async def arun(
        self,
        input: ChatModelInput | Mapping[str, Any],
        config: RunnableConfig | None = None,
        *,
        streaming: Literal[False] = False,
        **kwargs: Any,
    ) -> ChatModelOutput: ...
    @overload
    async def arun(
        self,
        input: ChatModelInput | Mapping[str, Any],
        config: RunnableConfig | None = None,
        *,
        streaming: Literal[True],
        **kwargs: Any,
    ) -> AsyncGenerator[ChatModelOutputDelta, None]: ...
    async def arun(
        self,
        input: ChatModelInput | Mapping[str, Any],
        config: RunnableConfig | None = None,
        *,
        streaming: bool = False,
        **kwargs: Any,
    ) -> ChatModelOutput | AsyncGenerator[ChatModelOutputDelta, None]:
        """Answer a `ChatModelInput` with a `ChatModelOutput`, or with delta records that add up to one."""
        run = Run.asynchronous(config, kwargs)
        if streaming:
            return answer_deltas(self, input, run)
        return await answer_record(self, input, run)

    # -- several conversations at once

    def generate(
        self,
        messages: list[list[BaseMessage]],
        stop: list[str] | None = None,
        callbacks: Callbacks = None,
        *,
        tags: list[str] | None = None,
        metadata: Params | None = None,
        run_name: str | None = None,
        run_id: UUID | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        """Answer several conversations; the result has every generation of each."""
        config = (callbacks, tags, metadata, run_name, run_id)
        return drive(generate_each(self, messages, BLOCKING, config, with_stop(stop, kwargs)))

    async def agenerate(
        self,
        messages: list[list[BaseMessage]],
        stop: list[str] | None = None,
        callbacks: Callbacks = None,
        *,
        tags: list[str] | None = None,
        metadata: Params | None = None,
        run_name: str | None = None,
        run_id: UUID | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        """Answer several conversations at once; the result has every generation of each."""
        config = (callbacks, tags, metadata, run_name, run_id)
        return await generate_each(self, messages, ASYNC, config, with_stop(stop, kwargs))

    def generate_prompt(
        self,
        prompts: list[PromptValue],
        stop: list[str] | None = None,
        callbacks: Callbacks = None,
        **kwargs: Any,
    ) -> LLMResult:
        """Answer several prompts."""
        return self.generate([each.to_messages() for each in prompts], stop, callbacks, **kwargs)

    async def agenerate_prompt(
        self,
        prompts: list[PromptValue],
        stop: list[str] | None = None,
        callbacks: Callbacks = None,
        **kwargs: Any,
    ) -> LLMResult:
        """Answer several prompts at once."""
        conversations = [prompt.to_messages() for prompt in prompts]
        return await self.agenerate(conversations, stop, callbacks, **kwargs)
