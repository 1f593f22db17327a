"""Text models: a prompt in, text out. `BaseLLM` for authors who answer many prompts at once, `LLM` for one at a time.

Every public method is a view of two bodies: `_answer_all` (whole answers) and `_traced_stream` (piece by piece).
"""

from __future__ import annotations

import json
from abc import ABC
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import Field

from foldline._config import Configs
from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._run import Run
from foldline.callbacks.manager import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from foldline.exceptions import UsageError
from foldline.language_models.base import BaseLanguageModel, Params
from foldline.language_models.call.cache import CacheSlot, cache_in_force
from foldline.language_models.call.cache_key import text_model_key
from foldline.language_models.call.deadline import bounded_source
from foldline.language_models.call.request import text_of
from foldline.language_models.text.metering import ask_metered, meter_prompts, read_counts
from foldline.language_models.text.prompt_runs import PerPrompt, runs_of_prompts
from foldline.load.lazy_dump import LazyDump
from foldline.outputs import Generation, GenerationChunk, LLMResult, RunInfo
from foldline.prompt_values import PromptValue
from foldline.rate_limiters import BaseRateLimiter
from foldline.runnables._trace import NOTHING, add_up, batch_inputs, batch_progress, runs_of

if TYPE_CHECKING:
    from foldline.utils.progress import ProgressOption

__all__ = ["BaseLLM"]


@dataclass(slots=True)
class PromptCall:
    """One prompt on its way: its run, its cache, its answer."""

    prompt: str
    run: Run
    kept: CacheSlot | None = None
    answer: list[Generation] | None = field(default=None)


class BaseLLM(BaseLanguageModel[str], ABC):
    """A model that continues text. The author writes `_generate` (many prompts), and may write `_stream`.

    ```python
    from foldline.language_models import FakeListLLM

    print(FakeListLLM(responses=["Paris"]).invoke("The capital of France is "))
    #> Paris
    ```
    """

    rate_limiter: BaseRateLimiter | None = Field(default=None, exclude=True)
    """Says when a request may be sent."""

    _kind: ClassVar[Any] = "llm"
    _meters_requests: ClassVar[bool] = False
    """Whether this class takes the share of limits and budgets for each of its requests itself."""

    # -- what an author writes

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> LLMResult:
        if type(self)._agenerate is BaseLLM._agenerate:
            raise NotImplementedError(f"{type(self).__name__} must implement `_generate`")
        return drive(BLOCKING.settle(self._agenerate(prompts, stop, None, **kwargs)))

    async def _agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> LLMResult:
        blocking = run_manager.get_sync() if run_manager is not None else None
        return cast(
            "LLMResult",
            await ASYNC.call(self._generate, prompts, stop=stop, run_manager=blocking, **kwargs),
        )

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> Iterator[GenerationChunk]:
        raise NotImplementedError(f"{type(self).__name__} has no `_stream`")

    def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> AsyncIterator[GenerationChunk]:
        raise NotImplementedError(f"{type(self).__name__} has no `_astream`")

    # -- whole answers

    async def _answer_all(
        self, asked: list[PromptCall], options: Params, io: IO
    ) -> tuple[list[list[Generation]], Params | None]:
        """Answer prompts, those in the cache from there, the others in one call; callbacks told."""
        options = dict(options)
        stop = options.pop("stop", None)
        for one in asked:
            await self._dispatch_start(one, stop, options, len(asked))
        try:
            output = await self._fill(asked, stop, options, io)
        except BaseException as error:
            for one in asked:
                response = LLMResult(generations=[one.answer or []])
                await one.run.dispatch("on_llm_error", error, response=response)
            raise
        for one in asked:
            told = LLMResult(generations=[one.answer or []], llm_output=output)
            await one.run.dispatch("on_llm_end", told)
        return [one.answer or [] for one in asked], output

    async def _fill(
        self, asked: list[PromptCall], stop: list[str] | None, options: Params, io: IO
    ) -> Params | None:
        cache = cache_in_force(self.cache)
        if cache is not None:
            key = text_model_key(self, stop, options)
            for one in asked:
                one.kept = CacheSlot(cache, (one.prompt, key), one.run.io)
                found = await one.kept.lookup()
                one.answer = None if found is None else list(found)
        missing = [one for one in asked if one.answer is None]
        if not missing:
            return {}
        result = await self._generated(missing, stop, options, io)
        for one, generations in zip(missing, result.generations, strict=True):
            one.answer = list(generations)
            if one.kept is not None:
                await one.kept.update(one.answer)
        fault = next((one.kept.fault for one in missing if one.kept and one.kept.fault), None)
        return (
            result.llm_output
            if fault is None
            else {**(result.llm_output or {}), "cache_error": fault}
        )

    async def _generated(
        self, missing: list[PromptCall], stop: list[str] | None, options: Params, io: IO
    ) -> LLMResult:
        prompts, manager = [one.prompt for one in missing], missing[0].run.run_manager("llm")
        meter = None
        if not self._counts_its_calls():
            meter = meter_prompts(self, self.rate_limiter, prompts, options, io)
        result = await ask_metered(
            meter,
            lambda: self._ask_author(prompts, stop, manager, options, io),
            io,
            lambda answer: read_counts(answer.llm_output),
        )
        if len(result.generations) != len(prompts) or not all(result.generations):
            raise UsageError(
                f"{type(self).__name__}._generate must give at least one generation for each of "
                f"{len(prompts)} prompts"
            )
        return result

    async def _ask_author(
        self,
        prompts: list[str],
        stop: list[str] | None,
        manager: Any,  # noqa: ANN401  the run manager of the call's mode
        options: Params,
        io: IO,
    ) -> LLMResult:
        if io.blocking:
            return self._generate(prompts, stop=stop, run_manager=manager, **options)
        return await self._agenerate(prompts, stop=stop, run_manager=manager, **options)

    def _counts_its_calls(self) -> bool:
        """Whether the calls behind whole answers take their share of limits and budgets one by one."""
        return self._meters_requests

    async def _dispatch_start(
        self, one: PromptCall, stop: list[str] | None, options: Params, size: int
    ) -> None:
        if one.run.manager is None:
            return
        await one.run.begin(
            "llm",
            "on_llm_start",
            LazyDump(self),
            [one.prompt],
            invocation_params=self._get_invocation_params(stop, **options),
            options={"stop": stop, **options},
            name=one.run.get("run_name") or self.get_name(),
            batch_size=size,
        )

    def _own_run(self, run: Run) -> Run:
        if run.manager is None and not self.callbacks and not self.verbose:
            return run
        told = {**self._get_ls_params(**run.kwargs), **(self.metadata or {})}
        own = run.with_local(self.callbacks, self.tags, told, verbose=self.verbose)
        return run.patched() if own is run else own

    async def _traced(self, input: object, run: Run) -> str:
        asked = PromptCall(text_of(input), self._own_run(run))
        answers, _ = await self._answer_all([asked], run.kwargs, run.io)
        return answers[0][0].text

    async def _run_each(
        self,
        inputs: Sequence[Any],
        config: Configs,
        io: IO,
        kwargs: Params,
        *,
        keep_errors: bool,
        progress: ProgressOption = None,
    ) -> list[Any]:
        """Answer a batch in one call of the model, or in several of `max_concurrency` prompts each."""
        inputs = list(batch_inputs(inputs))
        run_of, limit = runs_of(inputs, config, io, kwargs)
        results: list[Any] = []
        with batch_progress(progress, len(inputs), self) as shown:
            for start in range(0, len(inputs), limit or max(1, len(inputs))):
                part = inputs[start : start + (limit or len(inputs))]
                asked = [
                    PromptCall(text_of(value), self._own_run(run_of(start + place).patched()))
                    for place, value in enumerate(part)
                ]
                try:
                    answers, _ = await self._answer_all(asked, kwargs, io)
                    results += [answer[0].text for answer in answers]
                except Exception as error:
                    if not keep_errors:
                        raise
                    results += [error] * len(part)
                if shown is not None:
                    shown.advance(len(part))
        return results

    # -- piece by piece

    async def _traced_stream(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        hook = _stream_hook(type(self), blocking=run.io.blocking)
        if hook is None:
            yield await self._step(input, run)
            return
        asked = PromptCall(text_of(input), self._own_run(run))
        options = dict(run.kwargs)
        stop = options.pop("stop", None)
        await self._dispatch_start(asked, stop, options, 1)
        whole: GenerationChunk | None = None
        meter = None
        if not self._meters_requests:
            meter = meter_prompts(self, self.rate_limiter, [asked.prompt], options, run.io)
        try:
            async with meter or nullcontext():
                chunks = run.io.adapt(getattr(self, hook)(asked.prompt, stop=stop, **options))
                if meter is not None:
                    chunks = bounded_source(chunks, run.io, meter.in_use)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        whole = chunk if whole is None else whole + chunk
                        if meter is not None:
                            meter.is_begun = True
                            meter.usage = read_counts(whole.generation_info)
                        await asked.run.dispatch("on_llm_new_token", chunk.text, chunk=chunk)
                        yield chunk.text
            if whole is None:
                raise UsageError(f"{type(self).__name__}.{hook} gave no chunk at all")
        except BaseException as error:
            partial = LLMResult(generations=[[whole] if whole else []])
            await asked.run.dispatch("on_llm_error", error, response=partial)
            raise
        told = LLMResult(generations=[[whole]], llm_output=self._stream_output(whole))
        await asked.run.dispatch("on_llm_end", told)

    def _stream_output(self, whole: GenerationChunk) -> Params | None:
        """Return the `llm_output` of an answer that came as a stream."""
        return None

    async def _traced_transform(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        whole = await add_up(inputs)
        if whole is NOTHING:
            return
        async with aclosing(self._step_stream(whole, run)) as pieces:
            async for piece in pieces:
                yield piece

    # -- many prompts at once

    def generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        callbacks: PerPrompt = None,
        *,
        tags: PerPrompt = None,
        metadata: PerPrompt = None,
        run_name: PerPrompt = None,
        run_id: PerPrompt = None,
        **kwargs: object,
    ) -> LLMResult:
        """Answer several prompts in one call; config values may be lists with one for each prompt."""
        runs = runs_of_prompts(
            BLOCKING, prompts, callbacks, tags, metadata, run_name, run_id, kwargs
        )
        return drive(self._generate_each(prompts, runs, stop, kwargs, BLOCKING))

    async def agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        callbacks: PerPrompt = None,
        *,
        tags: PerPrompt = None,
        metadata: PerPrompt = None,
        run_name: PerPrompt = None,
        run_id: PerPrompt = None,
        **kwargs: object,
    ) -> LLMResult:
        """Answer several prompts in one call; config values may be lists with one for each prompt."""
        runs = runs_of_prompts(ASYNC, prompts, callbacks, tags, metadata, run_name, run_id, kwargs)
        return await self._generate_each(prompts, runs, stop, kwargs, ASYNC)

    async def _generate_each(
        self, prompts: list[str], runs: list[Run], stop: list[str] | None, kwargs: Params, io: IO
    ) -> LLMResult:
        given: Any = prompts
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise UsageError(
                "generate takes a list of texts: use invoke for one, generate_prompt for prompt values"
            )
        asked = [
            PromptCall(prompt, self._own_run(run))
            for prompt, run in zip(prompts, runs, strict=True)
        ]
        options = kwargs if stop is None else {**kwargs, "stop": stop}
        answers, output = await self._answer_all(asked, options, io) if asked else ([], None)
        told = LLMResult(generations=cast("Any", answers), llm_output=output)
        ids = [one.run.id for one in asked if one.run.id is not None]
        told.run = [RunInfo(run_id=one) for one in ids] or None
        return told

    def generate_prompt(
        self,
        prompts: list[PromptValue],
        stop: list[str] | None = None,
        callbacks: PerPrompt = None,
        **kwargs: object,
    ) -> LLMResult:
        """Answer several prompts in one call."""
        return self.generate([one.to_string() for one in prompts], stop, callbacks, **kwargs)

    async def agenerate_prompt(
        self,
        prompts: list[PromptValue],
        stop: list[str] | None = None,
        callbacks: PerPrompt = None,
        **kwargs: object,
    ) -> LLMResult:
        """Answer several prompts in one call."""
        return await self.agenerate([one.to_string() for one in prompts], stop, callbacks, **kwargs)

    # -- about the model

    @property
    def OutputType(self) -> object:
        """Text."""
        return str

    def save(self, file_path: Path | str) -> None:
        """Write what identifies this model to a JSON file."""
        path = Path(file_path)
        if path.suffix != ".json":
            raise UsageError(f"a model is saved as JSON: name the file {path.stem}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.asdict(), indent=2, default=str), encoding="utf-8")

    def __str__(self) -> str:
        return f"{type(self).__name__}\nParams: {self._identifying_params}"


def _stream_hook(cls: type[BaseLLM], *, blocking: bool) -> str | None:
    written = [
        name for name in ("_stream", "_astream") if getattr(cls, name) is not getattr(BaseLLM, name)
    ]
    wanted = "_stream" if blocking else "_astream"
    return wanted if wanted in written else next(iter(written), None)
