"""The managed side of every chat model: tools, structured output, counting, and `run`.

`BaseChatModel` is built on this class, which is plain: a second Pydantic class would be a tenth of a provider's own
import. What the settings are is there, what they do to a call in `_care`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from foldline._drive import drive
from foldline._lazy import late

if TYPE_CHECKING:
    from foldline import _run
    from foldline._config import RunnableConfig
    from foldline._run import Run
    from foldline.language_models import (
        _structured_parser,
        count,
        records,
        structured,
        tool_binding,
    )
    from foldline.language_models.base import BaseLanguageModel, Params
    from foldline.language_models.count import TokenCount
    from foldline.language_models.profile import ModelProfile
    from foldline.language_models.records import ChatModelInput, ChatModelOutput
    from foldline.language_models.tool_binding import Validate
    from foldline.messages import AIMessage, BaseMessage
    from foldline.runnables.base import Runnable

    Base: TypeAlias = BaseLanguageModel[AIMessage]  # type: ignore[type-var]  # an AIMessage is one of them
else:
    _run = late("foldline._run")
    _structured_parser = late("foldline.language_models._structured_parser")
    count = late("foldline.language_models.count")
    records = late("foldline.language_models.records")
    structured = late("foldline.language_models.structured")
    tool_binding = late("foldline.language_models.tool_binding")

    Base = object

__all__ = ["Managed"]

SETTINGS = (
    "model_options", "hooks", "guards", "file_resolver", "output_file_type", "max_input_tokens", "prompt_cache",
    "guard_mode", "output_dir", "on_overflow", "on_unsupported",
)  # fmt: skip


class Managed(Base):
    """What every chat model can do with its settings, whatever its provider."""

    if TYPE_CHECKING:
        profile: ModelProfile | None

    @property
    def _settings(self) -> Params:
        """What was set of the settings of a managed call, `profile` aside."""
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
        options = tool_binding.bound_tools(
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
        options, check = structured.structured_options(
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
        return asked | _structured_parser.StructuredParser(check, include_raw=include_raw)

    # -- counting

    def count_tokens(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Count the tokens of messages and tools, and say whether the count is exact. Opens no socket."""
        return count.count_tokens(self, messages, tools)

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
        record = records.input_of(input)
        options, check = record.call_options(self.profile)
        message = await self._step(record.messages, run.patched(kwargs={**options, **run.kwargs}))
        return records.output_of(message, check)
