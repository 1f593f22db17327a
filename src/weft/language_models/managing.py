"""The managed side of every chat model: its settings, tools, structured output, counting, and `run`.

`BaseChatModel` is built on this class. What the settings do to a call is in `_care`; what they are is here. What a
plain call does not need is imported by the method that does: it was a tenth of the time to import a provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from weft._drive import drive
from weft._lazy import TypeLater, late
from weft.language_models.base import BaseLanguageModel, Params

if TYPE_CHECKING:
    from weft import _run
    from weft._config import RunnableConfig
    from weft._run import Run
    from weft.language_models import profile as profiles
    from weft.language_models.count import TokenCount
    from weft.language_models.profile import ModelProfile
    from weft.language_models.records import ChatModelInput, ChatModelOutput
    from weft.language_models.tool_binding import Validate
    from weft.messages import AIMessage, BaseMessage
    from weft.runnables.base import Runnable

    AnswersMessages: TypeAlias = BaseLanguageModel[AIMessage]  # type: ignore[type-var]  # an AIMessage is one of them
else:
    _run = late("weft._run")
    profiles = late("weft.language_models.profile")

    AnswersMessages = BaseLanguageModel  # not subscripted: Pydantic would make one more class of it
    ModelProfile = Annotated[Any, TypeLater(lambda: profiles.ModelProfile)]

__all__ = ["ManagedModel"]

SETTINGS = (
    "model_options", "hooks", "guards", "file_resolver", "output_file_type", "max_input_tokens", "prompt_cache",
    "guard_mode", "output_dir", "on_overflow", "on_unsupported",
)  # fmt: skip


class ManagedModel(AnswersMessages):
    """Settings that every chat model takes, whatever its provider."""

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

    _tool_name_pattern: ClassVar[str | None] = None
    """The characters that the provider takes in a tool's name, as a class; None for any."""

    @field_validator("prompt_cache")
    @classmethod
    def _check_prompt_cache(cls, value: Any) -> Any:
        from weft.language_models.prompt_caching import CacheConfig  # noqa: PLC0415

        CacheConfig.of(value)
        return value

    @field_validator("hooks")
    @classmethod
    def _check_hooks(cls, value: Any) -> Any:
        from weft.language_models.hooks import ModelHooks  # noqa: PLC0415

        return ModelHooks.of(value)

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

    @property
    def _settings(self) -> Params:
        """What was set of the above, `profile` aside."""
        own = self.__dict__
        return {name: own[name] for name in SETTINGS if own[name] is not None}

    # -- tools and structured output

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: Any = None,
        parallel_tool_calls: bool | None = None,
        strict: bool | None = None,
        validate: Validate = "off",
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
        """Give the model tools: functions, `@tool` objects, Pydantic models, TypedDicts, schemas, providers' own tools.

        `validate="invalid"` marks calls to unknown tools and with arguments that do not fit as invalid;
        `"retry"` asks the model again, telling it what was wrong.
        """
        from weft.language_models.tool_binding import bound_tools  # noqa: PLC0415

        options = bound_tools(
            tools,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            strict=strict,
            validate=validate,
        )
        return self.bind(**options, **kwargs)

    def with_structured_output(
        self,
        schema: Any,
        *,
        method: str = "auto",
        include_raw: bool = False,
        strict: bool | None = None,
        max_retries: int = 2,
        repair: bool = True,
        tools: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> Runnable[Any, Any]:
        """Give a runnable whose output fits a schema: a Pydantic model, dataclass, TypedDict or JSON Schema.

        An answer that does not fit is asked for again, with what was wrong, `max_retries` times. With `include_raw`
        the output is `{"raw": message, "parsed": object, "parsing_error": error}`.
        """
        from weft.language_models._structured_parser import StructuredParser  # noqa: PLC0415
        from weft.language_models.structured import structured_options  # noqa: PLC0415

        options, check = structured_options(
            schema,
            self.profile,
            method=method,
            include_raw=include_raw,
            strict=strict,
            max_retries=max_retries,
            repair=repair,
            tools=tools,
        )
        asked = self.bind(**options, **kwargs)
        return asked | StructuredParser(check, include_raw=include_raw)

    # -- counting

    def count_tokens(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Count the tokens of messages and tools, and say whether the count is exact. Opens no socket."""
        from weft.language_models.count import count_tokens  # noqa: PLC0415

        return count_tokens(self, messages, tools)

    # -- AIGNE's door

    def run(
        self, input: ChatModelInput | Params, config: RunnableConfig | None = None, **kwargs: Any
    ) -> ChatModelOutput:
        """Answer a `ChatModelInput` with a `ChatModelOutput`."""
        return drive(self._run_record(input, _run.Run.blocking(config, kwargs)))

    async def arun(
        self, input: ChatModelInput | Params, config: RunnableConfig | None = None, **kwargs: Any
    ) -> ChatModelOutput:
        """Answer a `ChatModelInput` with a `ChatModelOutput`."""
        return await self._run_record(input, _run.Run.asynchronous(config, kwargs))

    async def _run_record(self, input: ChatModelInput | Params, run: Run) -> ChatModelOutput:
        from weft.language_models.records import input_of, output_of  # noqa: PLC0415

        record = input_of(input)
        options, check = record.call_options(self.profile)
        message = await self._step(record.messages, run.patched(kwargs={**options, **run.kwargs}))
        return output_of(message, check)
