"""`BaseLanguageModel`: what text models and chat models share: settings of calls, listeners, token counts."""

from __future__ import annotations

from abc import ABC
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SkipValidation,
    ValidationInfo,
    field_validator,
    model_validator,
)
from typing_extensions import TypeVar

from foldline import globals as settings
from foldline._lazy import lazy_exports
from foldline._run import Run
from foldline.caches import BaseCache
from foldline.callbacks.base import Callbacks
from foldline.language_models import _types
from foldline.language_models._call.llm_output import combine_llm_outputs
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.language_models._call.settings import check_setting
from foldline.language_models._types import (
    LangSmithParams,
    LanguageModelInput,
    LanguageModelLike,
    LanguageModelOutput,
)
from foldline.messages import AIMessage, BaseMessage, count as counting
from foldline.outputs import ChatResult, LLMResult
from foldline.prompt_values import PromptValue
from foldline.protocol.folded_message import Bounds
from foldline.rate_limiters import BaseRateLimiter
from foldline.runnables.base import Runnable
from foldline.runnables.serializable import RunnableSerializable
from foldline.utils._suggest import warn_of_unknown

Cache: TypeAlias = BaseCache | bool | None

__all__ = [
    "BaseLanguageModel",
    "LangSmithParams",
    "LanguageModelInput",
    "LanguageModelLike",
    "LanguageModelOutput",
    "LanguageModelOutputVar",
    "get_tokenizer",
]

LanguageModelOutputVar = TypeVar("LanguageModelOutputVar", AIMessage, str, covariant=True)
Chunk = TypeVar("Chunk", covariant=True, default=LanguageModelOutputVar)

Params: TypeAlias = dict[str, Any]
"""A dict of settings; an alias, because models have a method named `dict`."""
Retrying: TypeAlias = RetryPolicy | bool | int | Params

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 3
"""The tokens for the role and the delimiters of a message, if a tokenizer counts its text."""


class ApproximateTokenizer:
    """Counts four characters as one token: no vocabulary is downloaded."""

    def encode(self, text: str) -> list[int]:
        """Return one made-up id per token."""
        return list(range(-(-len(text) // CHARACTERS_PER_TOKEN)))


@cache
def get_tokenizer() -> ApproximateTokenizer:
    """Return the tokenizer of models that have none of their own; it opens no socket."""
    return ApproximateTokenizer()


class BaseLanguageModel(RunnableSerializable[Any, LanguageModelOutputVar, Chunk], ABC):
    """A model that continues text or messages."""

    cache: Cache = Field(default=None, exclude=True)
    """None: the global cache if one is set. True: the global cache. False: none. Or a cache for this model."""
    verbose: bool = Field(default_factory=lambda: settings.get_verbose(), exclude=True, repr=False)
    """Whether to print what happens."""
    callbacks: Callbacks = Field(default=None, exclude=True)
    """Handlers that observe every run of this model."""
    tags: list[str] | None = Field(default=None, exclude=True)
    """Tags of every run of this model."""
    metadata: Params | None = Field(default=None, exclude=True)
    """Metadata of every run of this model."""
    custom_get_token_ids: Callable[[str], list[int]] | None = Field(default=None, exclude=True)
    """Your tokenizer, for counting."""
    rate_limiter: BaseRateLimiter | None = Field(default=None, exclude=True)
    """Decides when a request may be sent."""

    # -- the settings of a managed call

    # Not validated: validation would turn any dict into a policy, and drop the keys it does not know.
    retry_on_error: SkipValidation[Retrying] = Field(default=True, exclude=True)
    """Whether and how a failed request is retried before anything was delivered."""
    model_options: Params | None = Field(default=None, exclude=True, repr=False)
    """Options for every call; nested dicts merge with those of the call, which take precedence."""
    hooks: Any = Field(default=None, exclude=True, repr=False)
    """`ModelHooks`: may replace requests, results and errors."""
    guards: list[Any] | None = Field(default=None, exclude=True, repr=False)
    """Functions that check a finished answer."""
    guard_mode: Literal["buffer", "post"] | None = Field(default=None, exclude=True, repr=False)
    """While streaming: "buffer" (the default) holds everything back until the guards have passed, "post" does not."""
    max_input_tokens: int | None = Field(default=None, gt=0, exclude=True, repr=False)
    """The longest request; by default that of the profile."""

    _kind: ClassVar[Any] = "llm"
    _tool_name_pattern: ClassVar[str | None] = None
    """The characters that the provider allows in a tool's name, as a regex class; None for any."""
    _usage_mode: ClassVar[Literal["sum", "last"]] = "sum"
    """How the usage on an author's chunks adds up: "last" if the provider sends running totals (T59)."""
    _makes_new_events: ClassVar[bool] = False
    """Whether `_events` yields events made for one call, which the message may use without copying."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, protected_namespaces=()
    )

    @model_validator(mode="before")
    @classmethod
    def _warn_of_unknown_arguments(cls, values: object) -> object:
        if isinstance(values, dict) and not values.keys() <= cls.model_fields.keys():
            warn_of_unknown(cls, values)
        return values

    @field_validator("retry_on_error")
    @classmethod
    def _check_retries(cls, value: Any) -> object:  # noqa: ANN401  of any kind that it takes
        RetryPolicy.of(value)
        return value

    @field_validator("guards", "hooks")
    @classmethod
    def _check_setting(cls, value: object, info: ValidationInfo) -> object:
        return check_setting(str(info.field_name), value, cls.__name__)

    # -- methods that a call uses

    @property
    def _retry_policy(self) -> RetryPolicy:
        return RetryPolicy.of(self.retry_on_error)

    @property
    def _fold_limits(self) -> Bounds | None:
        """How large a message may grow; None for the default limits (E8)."""
        return None

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Any, None]:
        """Yield the answer as events, or as lists of events that arrived together."""
        raise NotImplementedError
        yield

    async def _preprocess(self, request: ChatRequest, run: Run) -> ChatRequest:
        return request

    async def _postprocess(self, request: ChatRequest, result: ChatResult, run: Run) -> ChatResult:
        return result

    def _combine_llm_outputs(self, llm_outputs: list[Params | None]) -> Params:
        return combine_llm_outputs(llm_outputs)

    @property
    def InputType(self) -> object:
        """Text, a prompt value, or messages in any form."""
        return _types.LanguageModelInput

    # -- identity

    @property
    def _identifying_params(self) -> Params:
        """The parameters that identify this model: part of every cache key."""
        return self.lc_attributes

    @property
    def _untraced_params(self) -> Params:
        """Further parameters that affect the answers: part of every cache key, but not of traces."""
        return {}

    @property
    def _llm_type(self) -> str:
        return type(self).__name__.lower()

    @property
    def _provider(self) -> str | None:
        """The name of the provider, for errors and traces."""
        return None

    @property
    def _model_name(self) -> str | None:
        name = _setting(self, "model") or _setting(self, "model_name")
        return name if isinstance(name, str) else None

    def asdict(self) -> Params:
        """Return the parameters that identify this model, as a dict."""
        return {**self._identifying_params, "_type": self._llm_type}

    def dict(self, **kwargs: object) -> Params:
        """Return the parameters that identify this model, as a dict."""
        return self.asdict()

    def _get_invocation_params(self, stop: list[str] | None = None, **kwargs: object) -> Params:
        return {**self.asdict(), "stop": stop, **kwargs}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: object) -> LangSmithParams:
        """Return the description of this model in traces; the options of the call override its fields."""
        params: LangSmithParams = {
            "ls_provider": self._provider or _provider_of(type(self)),
            "ls_model_type": self._ls_type(),
        }
        if name := kwargs.get("model") or self._model_name:
            params["ls_model_name"] = str(name)
        if stop:
            params["ls_stop"] = stop
        temperature = kwargs.get("temperature", _setting(self, "temperature"))
        if temperature is not None and isinstance(temperature, int | float):
            params["ls_temperature"] = temperature
        limit = kwargs.get("max_tokens", _setting(self, "max_tokens"))
        if limit is not None and isinstance(limit, int):
            params["ls_max_tokens"] = limit
        return params

    def _ls_type(self) -> str:
        return "llm"

    # -- many prompts at once

    def generate_prompt(
        self,
        prompts: list[PromptValue],
        stop: list[str] | None = None,
        callbacks: Callbacks = None,
        **kwargs: object,
    ) -> LLMResult:
        """Answer several prompts."""
        raise NotImplementedError(f"{type(self).__name__} has no `generate_prompt`")

    async def agenerate_prompt(
        self,
        prompts: list[PromptValue],
        stop: list[str] | None = None,
        callbacks: Callbacks = None,
        **kwargs: object,
    ) -> LLMResult:
        """Answer several prompts."""
        raise NotImplementedError(f"{type(self).__name__} has no `agenerate_prompt`")

    # -- counting tokens

    def predict(self, text: str, *, stop: list[str] | None = None, **kwargs: object) -> str:
        """Return the text of the answer to a text: LangChain's older name for `invoke`."""
        return _text_of(self.invoke(text, **with_stop(stop, kwargs)))

    async def apredict(self, text: str, *, stop: list[str] | None = None, **kwargs: object) -> str:
        """Return the text of the answer to a text: LangChain's older name for `ainvoke`."""
        return _text_of(await self.ainvoke(text, **with_stop(stop, kwargs)))

    def predict_messages(
        self, messages: list[BaseMessage], *, stop: list[str] | None = None, **kwargs: object
    ) -> BaseMessage:
        """Return the answer to messages, as a message: LangChain's older name for `invoke`."""
        return _message_of(self.invoke(messages, **with_stop(stop, kwargs)))

    async def apredict_messages(
        self, messages: list[BaseMessage], *, stop: list[str] | None = None, **kwargs: object
    ) -> BaseMessage:
        """Return the answer to messages, as a message: LangChain's older name for `ainvoke`."""
        return _message_of(await self.ainvoke(messages, **with_stop(stop, kwargs)))

    def get_token_ids(self, text: str) -> list[int]:
        """Return the ids of the tokens of a text: of your tokenizer, else made-up ones, four characters each."""
        if self.custom_get_token_ids is not None:
            return self.custom_get_token_ids(text)
        return get_tokenizer().encode(text)

    def _add_version(self, package: str, version: str) -> None:
        """Add the package of this model and its version to the metadata of runs, as LangChain's packages do."""
        versions = (self.metadata or {}).get("lc_versions") or {}
        self.metadata = {**(self.metadata or {}), "lc_versions": {**versions, package: version}}

    def get_num_tokens(self, text: str) -> int:
        """Return the number of tokens of a text: exactly with a tokenizer, else about four characters each."""
        return len(self.get_token_ids(text))

    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Return the number of tokens of messages and tools; opens no socket."""
        if self.custom_get_token_ids is None:
            return counting.count_tokens_approximately(
                messages, tools=list(tools) if tools else None
            )
        tool_tokens = counting.count_tokens_approximately([], tools=list(tools)) if tools else 0
        message_tokens = (self.get_num_tokens(str(message.text)) for message in messages)
        return sum(message_tokens) + TOKENS_PER_MESSAGE * len(messages) + tool_tokens

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:  # noqa: ANN401  a class, a TypedDict or a JSON Schema, as the subclass accepts
        """Return a runnable whose output fits a schema."""
        raise NotImplementedError(f"{type(self).__name__} has no structured output")


def with_stop(stop: list[str] | None, kwargs: Params) -> Params:
    """Return keyword arguments with `stop`, if it is set."""
    return kwargs if stop is None else {**kwargs, "stop": stop}


def _text_of(answer: str | BaseMessage) -> str:
    return answer if isinstance(answer, str) else str(answer.text)


def _message_of(answer: object) -> BaseMessage:
    return AIMessage(answer) if isinstance(answer, str) else cast("BaseMessage", answer)


def _setting(model: BaseLanguageModel[Any], name: str) -> object:
    """Return a setting that only some models have; a missing attribute is slow to look up in Pydantic."""
    return getattr(model, name, None) if _may_have(type(model), name) else None


@cache
def _may_have(cls: type[BaseLanguageModel[Any]], name: str) -> bool:
    if name in cls.__pydantic_fields__ or hasattr(cls, name):
        return True
    return cls.model_config.get("extra") == "allow" or cls.__getattr__ is not BaseModel.__getattr__  # type: ignore[attr-defined]


@cache
def _provider_of(cls: type[BaseLanguageModel[Any]]) -> str:
    """Guess a provider's name from its class: ChatAcme -> acme, AcmeLLM -> acme."""
    return cls.__name__.removeprefix("Chat").removesuffix("LLM").removesuffix("Chat").lower()


with lazy_exports(__name__):
    from foldline.language_models._types import (
        LangSmithParams as LangSmithParams,
        LanguageModelInput as LanguageModelInput,
        LanguageModelLike as LanguageModelLike,
        LanguageModelOutput as LanguageModelOutput,
    )
