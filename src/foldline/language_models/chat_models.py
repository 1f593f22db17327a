"""`BaseChatModel`: messages in, a message out; the public face of a `Turn`.

An author implements one of `_events` (native, best), `_stream_chat_model_events`, `_stream`, `_generate`, or an async
twin; every public method works.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, SkipValidation, field_validator, model_validator

from foldline._drive import drive, drive_each
from foldline._lazy import TypeLater, late, lazily
from foldline.exceptions import UsageError
from foldline.language_models._generating import Generating
from foldline.language_models.base import BaseLanguageModel, Params
from foldline.language_models.managing import Managed

if TYPE_CHECKING:
    from foldline import _io, _run, load, messages, outputs, prompt_values
    from foldline._config import RunnableConfig
    from foldline._run import Run
    from foldline.language_models import (
        _deadline,
        _sources,
        _turn,
        chat_model_stream,
        prompt_caching,
        retry,
        usage,
    )
    from foldline.language_models import (
        hooks as model_hooks,
    )
    from foldline.language_models import (
        profile as profiles,
    )
    from foldline.language_models import (
        request as requests,
    )
    from foldline.language_models.chat_model_stream import AsyncChatModelStream, ChatModelStream
    from foldline.language_models.profile import ModelProfile
    from foldline.language_models.request import ChatRequest
    from foldline.language_models.retry import RetryPolicy
    from foldline.language_models.simple import SimpleChatModel
    from foldline.messages import AIMessage, BaseMessage, _view
    from foldline.messages import output_version as versions
    from foldline.outputs import ChatGenerationChunk, ChatResult
    from foldline.prompt_values import PromptValue
    from foldline.protocol.events import Event
    from foldline.protocol.folded import Bounds
    from foldline.rate_limiters import BaseRateLimiter
    from foldline.runnables import _trace
    from foldline.runnables._opening import Opening

    AnswersMessages: TypeAlias = BaseLanguageModel[AIMessage]  # type: ignore[type-var]  # an AIMessage is one of them
    Retrying: TypeAlias = RetryPolicy | bool | int | Params
else:
    _deadline = late("foldline.language_models._deadline")
    _io = late("foldline._io")
    _run = late("foldline._run")
    _sources = late("foldline.language_models._sources")
    _trace = late("foldline.runnables._trace")
    _turn = late("foldline.language_models._turn")
    _view = late("foldline.messages._view")
    chat_model_stream = late("foldline.language_models.chat_model_stream")
    limiters = late("foldline.rate_limiters.base")
    load = late("foldline.load")
    messages = late("foldline.messages")
    model_hooks = late("foldline.language_models.hooks")
    outputs = late("foldline.outputs")
    profiles = late("foldline.language_models.profile")
    prompt_caching = late("foldline.language_models.prompt_caching")
    prompt_values = late("foldline.prompt_values")
    requests = late("foldline.language_models.request")
    retry = late("foldline.language_models.retry")
    usage = late("foldline.language_models.usage")
    versions = late("foldline.messages.output_version")

    BaseRateLimiter = Annotated[Any, TypeLater(lambda: limiters.BaseRateLimiter)]
    AnswersMessages = BaseLanguageModel  # not subscripted: Pydantic would make one more class of it
    ModelProfile = Annotated[Any, TypeLater(lambda: profiles.ModelProfile)]
    Retrying = Any

__all__ = ["BaseChatModel", "SimpleChatModel", "agenerate_from_stream", "generate_from_stream"]

LIMITER_LOOK = 0.02
"""Seconds between two looks at a rate limiter where a usage scope has a deadline."""


class BaseChatModel(Managed, Generating, AnswersMessages, ABC):
    """A model that answers messages with a message.

    ```python
    from foldline.language_models import FakeListChatModel

    print(FakeListChatModel(responses=["Hello!"]).invoke("Hi").text)
    #> Hello!
    ```
    """

    rate_limiter: BaseRateLimiter | None = Field(default=None, exclude=True)
    """Waits before every request."""
    disable_streaming: bool | Literal["tool_calling"] = False
    """True: stream methods give the whole answer at once. "tool_calling": only when tools are given."""
    output_version: str | None = Field(default=None)
    """Shape of `content`: "v0" (text as a string where nothing is lost) or "v1" (always content blocks).

    Where it is not said, the environment may say it at the first call."""
    # As it was given: validation would make a policy of any dict, and drop the keys it does not know.
    retry_on_error: SkipValidation[Retrying] = Field(default=True, exclude=True)
    """Whether and how a failed request is tried again before anything was delivered."""

    # -- the settings of a managed call

    profile: ModelProfile | None = Field(default=None, exclude=True, repr=False)
    """What the model can do; found by its provider and name where you do not say."""
    model_options: Params | None = Field(default=None, exclude=True, repr=False)
    """Options for every call; nested dicts merge with those of the call, which win."""
    hooks: Any = Field(default=None, exclude=True, repr=False)
    """`ModelHooks`: may replace requests, results and errors."""
    guards: list[Any] | None = Field(default=None, exclude=True, repr=False)
    """Functions that a finished answer must pass."""
    guard_mode: Literal["buffer", "post"] | None = Field(default=None, exclude=True, repr=False)
    """While streaming: "buffer" (the default) holds everything back until the guards have passed, "post" does not."""
    file_resolver: Any = Field(default=None, exclude=True, repr=False)
    """`FileResolver`: which files and URLs that messages name may be read. None: none."""
    output_file_type: Literal["local", "file", "url"] | None = Field(
        default=None, exclude=True, repr=False
    )
    """How files of an answer are given: written to `output_dir`, as base64, or as URLs."""
    output_dir: Any = Field(default=None, exclude=True, repr=False)
    max_input_tokens: int | None = Field(default=None, exclude=True, repr=False)
    """The longest request; default: what the profile says."""
    on_overflow: Literal["raise", "trim"] | None = Field(default=None, exclude=True, repr=False)
    """What to do with a longer one: raise (the default), or leave out the oldest messages."""
    on_unsupported: Literal["warn", "raise"] | None = Field(default=None, exclude=True, repr=False)
    """What to do with an option the model does not take: leave it out with a warning (the default), or raise."""
    prompt_cache: Any = Field(default=None, exclude=True, repr=False)
    """`CacheConfig`, or True: where marks for the provider's prompt cache go by themselves."""

    _kind: ClassVar[Any] = "llm"
    _tool_name_pattern: ClassVar[str | None] = None
    """The characters that the provider takes in a tool's name, as a class; None for any."""
    _usage_mode: ClassVar[Literal["sum", "last"]] = "sum"
    """How the usage on an author's chunks adds up: "last" where the provider sends running totals (T59)."""

    @field_validator("retry_on_error")
    @classmethod
    def _check_retry(cls, value: Any) -> Any:
        retry.RetryPolicy.of(value)
        return value

    @field_validator("prompt_cache")
    @classmethod
    def _check_prompt_cache(cls, value: Any) -> Any:
        prompt_caching.CacheConfig.of(value)
        return value

    @field_validator("hooks")
    @classmethod
    def _check_hooks(cls, value: Any) -> Any:
        return model_hooks.ModelHooks.of(value)

    @model_validator(mode="after")
    def _set_model_profile(self) -> Self:
        if self.profile is None:
            found = self._resolve_model_profile()
            if found is not None:
                self.__dict__["profile"] = found  # what was found is not what the caller set
        return self

    def _resolve_model_profile(self) -> ModelProfile | None:
        """Find the profile of this model; a provider may override it."""
        return profiles.find_profile(self._provider, self._model_name)

    if TYPE_CHECKING:

        def stream_v2(
            self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
        ) -> ChatModelStream:
            """Answer as a stream of content-block events with projections; nothing happens before it is read."""

        async def astream_v2(
            self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
        ) -> AsyncChatModelStream:
            """Answer as a stream of content-block events with projections; nothing happens before it is read."""

    # -- what an author writes: one of these

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        raise NotImplementedError
        yield

    async def _tell_events(
        self, request: ChatRequest, run: Run, hear: Callable[[Sequence[Event]], None]
    ) -> None:
        """Tell whoever wants only the end what `_events` gives; a provider may do so without a generator between."""
        async with aclosing(self._events(request, run)) as events:
            async for event in events:
                hear((event,))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = requests.ChatRequest(messages, stop, kwargs)
        return drive(_sources.derived_result(self, request, _run.Run.blocking(), "_generate"))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = requests.ChatRequest(messages, stop, kwargs)
        return await _sources.derived_result(self, request, _run.Run.asynchronous(), "_agenerate")

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        request = requests.ChatRequest(messages, stop, kwargs, stream=True)
        return drive_each(_sources.derived_chunks(self, request, _run.Run.blocking(), "_stream"))

    def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        request = requests.ChatRequest(messages, stop, kwargs, stream=True)
        return _sources.derived_chunks(self, request, _run.Run.asynchronous(), "_astream")

    # -- what a turn asks of its model

    def _request(self, value: Any, run: Run, *, stream: bool) -> ChatRequest:
        messages = (
            list(value.messages)
            if type(value) is prompt_values.ChatPromptValue
            else requests.messages_of(value)
        )
        options = dict(run.kwargs)
        stop = options.pop("stop", None)
        if type(stop) is str:
            stop = [stop]
        streams = stream and not self._streaming_disabled(options)
        return requests.ChatRequest(messages, stop, options, streams)

    def _is_managed(self) -> bool:
        """Whether anything a managed call needs is set, a profile included: by most providers, by few tests."""
        own = self.__dict__
        return bool(
            own["profile"] or own["model_options"] or own["hooks"] or own["guards"] or own["file_resolver"]
            or own["output_file_type"] or own["max_input_tokens"] or own["prompt_cache"] or own["on_unsupported"]
        )  # fmt: skip

    async def _preprocess(self, request: ChatRequest, run: Run) -> ChatRequest:
        return request

    async def _postprocess(self, request: ChatRequest, result: ChatResult, run: Run) -> ChatResult:
        return result

    async def _wait_for_turn(self, run: Run) -> None:
        limiter = self.rate_limiter
        if limiter is None:
            return
        has_deadline = usage.time_left() is not None
        while True:
            if run.io.blocking:
                is_taken = limiter.acquire(blocking=not has_deadline)
            else:
                is_taken = await limiter.aacquire(blocking=not has_deadline)
            if is_taken or not has_deadline:
                return
            await _deadline.pause(LIMITER_LOOK, run.io)

    async def _tell_start(self, request: ChatRequest, run: Run) -> None:
        if run.manager is not None:  # a trace shows which model it was, as LangChain's do
            run.manager = run.manager.copy()
            run.manager.add_metadata(
                dict(self._get_ls_params(request.stop, **request.options)), inherit=False
            )
        await run.begin(
            "llm",
            "on_chat_model_start",
            load.dumpd(self),
            [list(request.messages)],
            invocation_params=self._get_invocation_params(request.stop, **request.options),
            options={"stop": request.stop, **request.options},
            name=run.get("run_name") or self.get_name(),
            batch_size=1,
        )

    def _streaming_disabled(self, options: Params) -> bool:
        if self.disable_streaming is True:
            return True
        return self.disable_streaming == "tool_calling" and bool(options.get("tools"))

    @property
    def _retry_policy(self) -> RetryPolicy:
        return retry.RetryPolicy.of(self.retry_on_error)

    @property
    def _fold_limits(self) -> Bounds | None:
        """How large a message may grow; None for the usual bounds (E8)."""
        return None

    @property
    def _output_version(self) -> Literal["v0", "v1"]:
        # Asked of the environment at the first call and kept: making a model reads nothing, every call would be slow.
        own = self.__dict__
        if own["output_version"] is not None:
            return versions.output_version(own["output_version"])
        if "_heard_version" not in own:
            own["_heard_version"] = versions.output_version()
        heard: Literal["v0", "v1"] = own["_heard_version"]
        return heard

    def _ls_type(self) -> str:
        return "chat"

    def _convert_input(self, model_input: Any) -> PromptValue:
        if isinstance(model_input, prompt_values.PromptValue):
            return model_input
        if isinstance(model_input, str):
            return prompt_values.StringPromptValue(text=model_input)
        return prompt_values.ChatPromptValue(messages=requests.messages_of(model_input))

    @property
    def OutputType(self) -> Any:
        """A message."""
        return messages.AnyMessage

    # -- views of a turn

    async def _traced(self, input: Any, run: Run) -> Any:
        result = await _turn.Turn(self, input, run, stream=False).answer()
        return result.generations[0].message

    def _traced_stream(self, input: Any, run: Run) -> AsyncGenerator[Any, None]:
        turn = _turn.Turn(self, input, run, stream=True)
        turn.tokens = True
        return turn.events(_view.ChunkView(self._output_version))

    async def _traced_transform(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        whole = await _trace.add_up(inputs)
        if whole is _trace.NOTHING:
            return
        async with aclosing(self._traced_stream(whole, run)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _open_stream_v2(self, opening: Opening) -> ChatModelStream | AsyncChatModelStream:
        turn = _turn.Turn.opened(self, opening)
        streams = chat_model_stream.ChatModelStream, chat_model_stream.AsyncChatModelStream
        return streams[not opening.io.blocking](turn)


def generate_from_stream(stream: Iterator[ChatGenerationChunk]) -> ChatResult:
    """Add up an author's chunks: `_generate` for a model that only streams."""
    return _added_up(list(stream))


async def agenerate_from_stream(stream: AsyncIterator[ChatGenerationChunk]) -> ChatResult:
    """Add up an author's chunks: `_agenerate` for a model that only streams."""
    return _added_up([chunk async for chunk in stream])


def _added_up(chunks: list[ChatGenerationChunk]) -> ChatResult:
    whole = outputs.merge_chat_generation_chunks(chunks)
    if whole is None:
        raise UsageError("the stream gave no chunk at all")
    message = messages.message_chunk_to_message(whole.message)
    return outputs.ChatResult(
        generations=[outputs.ChatGeneration(message=message, generation_info=whole.generation_info)]
    )


__getattr__ = lazily(__name__, {".simple": "SimpleChatModel"})
