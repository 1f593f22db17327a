"""`generate`: many conversations or prompts at once, every answer of each kept. A part of every chat model."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from foldline._drive import drive
from foldline._lazy import late

if TYPE_CHECKING:
    from typing import Any
    from uuid import UUID

    from foldline import _io, _run, outputs
    from foldline._config import RunnableConfig
    from foldline._io import IO
    from foldline.callbacks.base import Callbacks
    from foldline.language_models import _turn
    from foldline.language_models._turn import Turn
    from foldline.language_models.base import Params
    from foldline.language_models.chat_models import BaseChatModel
    from foldline.messages import BaseMessage
    from foldline.outputs import ChatResult, LLMResult
    from foldline.prompt_values import PromptValue
else:
    _io = late("foldline._io")
    _run = late("foldline._run")
    _turn = late("foldline.language_models._turn")
    outputs = late("foldline.outputs")

__all__ = ["Generating"]

OF_A_RUN = ("callbacks", "tags", "metadata", "run_name", "run_id")


class Generating:
    """The methods of a chat model that answer several conversations or prompts."""

    async def _generate_each(
        self, prompts: list[list[BaseMessage]], io: IO, config: Params, kwargs: Params
    ) -> LLMResult:
        given = {key: value for key, value in config.items() if value is not None}
        rest = {
            key: value for key, value in given.items() if key != "run_id"
        }  # it names one run: the first
        turns = [
            _turn.Turn(
                cast("BaseChatModel", self),
                prompt,
                _run.Run.root(io, _config(given if not place else rest), kwargs),
                stream=False,
            )
            for place, prompt in enumerate(prompts)
        ]
        results: list[ChatResult | None] = [None] * len(turns)
        limit = 1 if io.blocking else None
        failed: BaseException | None = None
        async with aclosing(
            io.as_completed(lambda turn: turn.answer(), turns, limit=limit)
        ) as outcomes:
            async for place, value, error in outcomes:
                results[place], failed = value, failed or error
                if failed is not None and io.blocking:
                    break
        if failed is not None:
            raise failed
        return self._llm_result([one for one in results if one is not None], turns)

    def _llm_result(self, results: list[ChatResult], turns: list[Turn]) -> LLMResult:
        output = self._combine_llm_outputs([result.llm_output for result in results])
        told = outputs.LLMResult(
            generations=[result.generations for result in results], llm_output=output
        )
        ids = [turn.run.id for turn in turns if turn.run.id is not None]
        told.run = [outputs.RunInfo(run_id=one) for one in ids] or None
        return told

    def _combine_llm_outputs(self, llm_outputs: list[Params | None]) -> Params:
        return {}

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
        """Answer several conversations; every generation of each is kept."""
        config = dict(zip(OF_A_RUN, (callbacks, tags, metadata, run_name, run_id), strict=True))
        return drive(self._generate_each(messages, _io.BLOCKING, config, _with_stop(kwargs, stop)))

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
        """Answer several conversations at once; every generation of each is kept."""
        config = dict(zip(OF_A_RUN, (callbacks, tags, metadata, run_name, run_id), strict=True))
        return await self._generate_each(messages, _io.ASYNC, config, _with_stop(kwargs, stop))

    def generate_prompt(
        self,
        prompts: list[PromptValue],
        stop: list[str] | None = None,
        callbacks: Callbacks = None,
        **kwargs: Any,
    ) -> LLMResult:
        """Answer several prompts."""
        return self.generate(
            [prompt.to_messages() for prompt in prompts], stop, callbacks, **kwargs
        )

    async def agenerate_prompt(
        self,
        prompts: list[PromptValue],
        stop: list[str] | None = None,
        callbacks: Callbacks = None,
        **kwargs: Any,
    ) -> LLMResult:
        """Answer several prompts at once."""
        return await self.agenerate(
            [prompt.to_messages() for prompt in prompts], stop, callbacks, **kwargs
        )


def _config(values: Params) -> RunnableConfig:
    return cast("RunnableConfig", values)


def _with_stop(kwargs: Params, stop: list[str] | None) -> Params:
    return kwargs if stop is None else {**kwargs, "stop": stop}
