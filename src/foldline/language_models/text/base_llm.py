"""Text models: a prompt in, text out. `BaseLLM` for authors who answer many prompts at once, `LLM` for one at a time.

Every public method is a view of two bodies: `_answer_all` (complete answers) and `_stream_traced` (chunks).
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
from foldline.callbacks.manager import (
    AsyncCallbackManagerForLLMRun,
    BaseRunManager,
    CallbackManagerForLLMRun,
    TokenState,
)
from foldline.exceptions import UsageError
from foldline.language_models._call.cache import CacheSlot, cache_in_force, has_complete_reason
from foldline.language_models._call.cache_key import text_model_key
from foldline.language_models._call.deadline import bounded_source
from foldline.language_models._call.request import text_of
from foldline.language_models.base import BaseLanguageModel, Params
from foldline.language_models.text.metering import call_metered, meter_prompts, read_counts
from foldline.language_models.text.prompt_runs import PerPrompt, runs_of_prompts
from foldline.load.lazy_dump import LazyDump
from foldline.outputs import Generation, GenerationChunk, LLMResult, RunInfo
from foldline.prompt_values import PromptValue
from foldline.rate_limiters import BaseRateLimiter
from foldline.runnables._trace import NOTHING, add_up, batch_inputs, batch_progress, runs_of
from foldline.utils.author_arguments import passes_argument

if TYPE_CHECKING:
    from foldline.utils.progress import ProgressOption

__all__ = ["BaseLLM"]


@dataclass(slots=True)
class PromptCall:
    """The call for one prompt: its run, its cache entry, its answer."""

    prompt: str
    run: Run
    cache_slot: CacheSlot | None = None
    is_cached: bool = False
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
    """Decides when a request may be sent."""

    _kind: ClassVar[Any] = "llm"
    _meters_requests: ClassVar[bool] = False
    """Whether this class itself reserves its share of limits and budgets for each request."""

    _reports_finish_reason: ClassVar[bool] = False
    """Whether an answer without a finish reason may be incomplete, and so is not cached (E6)."""

    # -- methods for authors

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
        if passes_argument(type(self), "_generate", "run_manager"):
            kwargs["run_manager"] = run_manager.get_sync() if run_manager is not None else None
        return cast(
            "LLMResult",
            await ASYNC.call(self._generate, prompts, stop=stop, **kwargs),
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

    # -- complete answers

    async def _answer_all(
        self, calls: list[PromptCall], options: Params, io: IO
    ) -> tuple[list[list[Generation]], Params | None]:
        """Answer prompts, from the cache or in one call, and dispatch the callbacks."""
        options = dict(options)
        stop = options.pop("stop", None)
        for call in calls:
            await self._dispatch_start(call, stop, options, len(calls))
        try:
            output = await self._fill(calls, stop, options, io)
        except BaseException as error:
            for call in calls:
                response = LLMResult(generations=[call.answer or []])
                await call.run.dispatch("on_llm_error", error, response=response)
            raise
        bill = output
        for call in calls:
            llm_output: Params | None = {}  # from the cache: nothing was spent
            if not call.is_cached:
                llm_output, bill = bill, bill and {**bill, "token_usage": {}}
            result = LLMResult(generations=[call.answer or []], llm_output=llm_output)
            await call.run.dispatch("on_llm_end", result)
        return [call.answer or [] for call in calls], output

    async def _fill(
        self, calls: list[PromptCall], stop: list[str] | None, options: Params, io: IO
    ) -> Params | None:
        cache = cache_in_force(self.cache)
        if cache is not None:
            key = text_model_key(self, stop, options)
            for call in calls:
                call.cache_slot = CacheSlot(cache, (call.prompt, key), call.run.io)
                cached = await call.cache_slot.lookup()
                call.answer = None if cached is None else list(cached)
                call.is_cached = cached is not None
        missing = [call for call in calls if call.answer is None]
        if not missing:
            return {}
        result = await self._generate_missing(missing, stop, options, io)
        for call, generations in zip(missing, result.generations, strict=True):
            call.answer = list(generations)
            if call.cache_slot is not None and self._is_complete(call.answer):
                await call.cache_slot.update(call.answer)
        fault = next(
            (
                call.cache_slot.fault
                for call in missing
                if call.cache_slot and call.cache_slot.fault
            ),
            None,
        )
        return (
            result.llm_output
            if fault is None
            else {**(result.llm_output or {}), "cache_error": fault}
        )

    def _is_complete(self, generations: Sequence[Generation]) -> bool:
        """Return whether an answer may be cached: it was not cut or filtered (F-K06)."""
        return all(
            has_complete_reason(
                generation.generation_info or {}, needs_reason=self._reports_finish_reason
            )
            for generation in generations
        )

    async def _generate_missing(
        self, missing: list[PromptCall], stop: list[str] | None, options: Params, io: IO
    ) -> LLMResult:
        prompts, manager = [call.prompt for call in missing], missing[0].run.run_manager("llm")
        meter = None
        if not self._counts_its_calls():
            meter = meter_prompts(self, self.rate_limiter, prompts, options, io)
        result = await call_metered(
            meter,
            lambda: self._call_author(prompts, stop, manager, options, io),
            io,
            lambda answer: read_counts(answer.llm_output),
        )
        if len(result.generations) != len(prompts) or not all(result.generations):
            raise UsageError(
                f"{type(self).__name__}._generate must give at least one generation for each of "
                f"{len(prompts)} prompts"
            )
        return result

    async def _call_author(
        self,
        prompts: list[str],
        stop: list[str] | None,
        manager: Any,  # noqa: ANN401  the run manager of the call's mode
        options: Params,
        io: IO,
    ) -> LLMResult:
        hook = "_generate" if io.blocking else "_agenerate"
        if passes_argument(type(self), hook, "run_manager"):
            options = {**options, "run_manager": manager}
        if io.blocking:
            return self._generate(prompts, stop=stop, **options)
        return await self._agenerate(prompts, stop=stop, **options)

    def _counts_its_calls(self) -> bool:
        """Return whether each call of an author's method reserves its own share of limits and budgets."""
        return self._meters_requests

    async def _dispatch_start(
        self, call: PromptCall, stop: list[str] | None, options: Params, size: int
    ) -> None:
        if call.run.manager is None:
            return
        await call.run.begin(
            "llm",
            "on_llm_start",
            LazyDump(self),
            [call.prompt],
            invocation_params=self._get_invocation_params(stop, **options),
            options={"stop": stop, **options},
            name=call.run.get("run_name") or self.get_name(),
            batch_size=size,
        )

    def _own_run(self, run: Run) -> Run:
        if run.manager is None and not self.callbacks and not self.verbose:
            return run
        metadata = {**self._get_ls_params(**run.kwargs), **(self.metadata or {})}
        own_run = run.with_local(self.callbacks, self.tags, metadata, verbose=self.verbose)
        return run.patched() if own_run is run else own_run

    async def _invoke_traced(self, input: object, run: Run) -> str:
        call = PromptCall(text_of(input), self._own_run(run))
        answers, _ = await self._answer_all([call], run.kwargs, run.io)
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
        with batch_progress(progress, len(inputs), self) as progress_bar:
            for start in range(0, len(inputs), limit or max(1, len(inputs))):
                part = inputs[start : start + (limit or len(inputs))]
                calls = [
                    PromptCall(text_of(value), self._own_run(run_of(start + index).patched()))
                    for index, value in enumerate(part)
                ]
                try:
                    answers, _ = await self._answer_all(calls, kwargs, io)
                    results += [answer[0].text for answer in answers]
                except Exception as error:
                    if not keep_errors:
                        raise
                    results += [error] * len(part)
                if progress_bar is not None:
                    progress_bar.advance(len(part))
        return results

    # -- streams

    async def _stream_traced(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        hook = _stream_hook(type(self), blocking=run.io.blocking)
        if hook is None:
            yield await self._step(input, run)
            return
        call = PromptCall(text_of(input), self._own_run(run))
        options = dict(run.kwargs)
        stop = options.pop("stop", None)
        await self._dispatch_start(call, stop, options, 1)
        total: GenerationChunk | None = None
        meter = None
        if not self._meters_requests:
            meter = meter_prompts(self, self.rate_limiter, [call.prompt], options, run.io)
        try:
            async with meter or nullcontext():
                if passes_argument(type(self), hook, "run_manager"):
                    options["run_manager"] = _stream_manager(call.run, hook)
                chunks = run.io.adapt(getattr(self, hook)(call.prompt, stop=stop, **options))
                if meter is not None:
                    chunks = bounded_source(chunks, run.io, meter.in_use)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        total = chunk if total is None else total + chunk
                        if meter is not None:
                            meter.is_begun = True
                            meter.usage = read_counts(total.generation_info)
                        await call.run.dispatch("on_llm_new_token", chunk.text, chunk=chunk)
                        yield chunk.text
            if total is None:
                raise UsageError(f"{type(self).__name__}.{hook} yielded no chunk at all")
        except BaseException as error:
            partial = LLMResult(generations=[[total] if total else []])
            await call.run.dispatch("on_llm_error", error, response=partial)
            raise
        result = LLMResult(generations=[[total]], llm_output=self._stream_output(total))
        await call.run.dispatch("on_llm_end", result)

    def _stream_output(self, answer: GenerationChunk) -> Params | None:
        """Return the `llm_output` of a streamed answer."""
        return None

    async def _transform_traced(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        total = await add_up(inputs)
        if total is NOTHING:
            return
        async with aclosing(self._step_stream(total, run)) as chunks:
            async for chunk in chunks:
                yield chunk

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
        prompt_list: Any = prompts
        if not isinstance(prompt_list, list) or not all(
            isinstance(item, str) for item in prompt_list
        ):
            raise UsageError(
                "generate takes a list of texts: use invoke for one, generate_prompt for prompt values"
            )
        calls = [
            PromptCall(prompt, self._own_run(run))
            for prompt, run in zip(prompts, runs, strict=True)
        ]
        options = kwargs if stop is None else {**kwargs, "stop": stop}
        answers, output = await self._answer_all(calls, options, io) if calls else ([], None)
        result = LLMResult(generations=cast("Any", answers), llm_output=output)
        ids = [item.run.id for item in calls if item.run.id is not None]
        result.run = [RunInfo(run_id=id) for id in ids] or None
        return result

    def generate_prompt(
        self,
        prompts: list[PromptValue],
        stop: list[str] | None = None,
        callbacks: PerPrompt = None,
        **kwargs: object,
    ) -> LLMResult:
        """Answer several prompts in one call."""
        return self.generate([prompt.to_string() for prompt in prompts], stop, callbacks, **kwargs)

    async def agenerate_prompt(
        self,
        prompts: list[PromptValue],
        stop: list[str] | None = None,
        callbacks: PerPrompt = None,
        **kwargs: object,
    ) -> LLMResult:
        """Answer several prompts in one call."""
        return await self.agenerate(
            [prompt.to_string() for prompt in prompts], stop, callbacks, **kwargs
        )

    # -- other methods

    @property
    def OutputType(self) -> object:
        """Text."""
        return str

    def save(self, file_path: Path | str) -> None:
        """Write the parameters that identify this model to a JSON file."""
        path = Path(file_path)
        if path.suffix != ".json":
            raise UsageError(f"a model is saved as JSON: name the file {path.stem}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.asdict(), indent=2, default=str), encoding="utf-8")

    def __str__(self) -> str:
        return f"{type(self).__name__}\nParams: {self._identifying_params}"


def _stream_manager(run: Run, hook: str) -> BaseRunManager:
    """Return the run manager for an author's stream, whose tokens are dispatched as they are yielded."""
    manager: Any = run.run_manager("llm", is_async=hook == "_astream")
    if run.manager is not None:
        manager.tokens = TokenState(is_ignored=True)
    return cast("BaseRunManager", manager)


def _stream_hook(cls: type[BaseLLM], *, blocking: bool) -> str | None:
    defined = [
        name for name in ("_stream", "_astream") if getattr(cls, name) is not getattr(BaseLLM, name)
    ]
    preferred = "_stream" if blocking else "_astream"
    return preferred if preferred in defined else next(iter(defined), None)
