"""Text models: a prompt in, text out. `BaseLLM` for authors who answer many prompts at once, `LLM` for one at a time.

Every public method is a view of a `TextCall`, of which several share requests (`prompt_group`).
"""

from __future__ import annotations

import json
from abc import ABC
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from foldline._config import Configs
from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._run import Run
from foldline.callbacks.manager import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from foldline.exceptions import UsageError
from foldline.language_models._call.model import setting_of
from foldline.language_models._call.request import ChatRequest, plain_human, text_of
from foldline.language_models._call.settings import settings_reader
from foldline.language_models.base import BaseLanguageModel, Params, with_stop
from foldline.language_models.count import TokenCount
from foldline.language_models.profile import ModelProfile
from foldline.language_models.text._prompt_group import answer_prompts
from foldline.language_models.text._prompt_runs import PerPrompt, runs_of_prompts
from foldline.language_models.text._text_author import TextAuthor, prompt_of, read_counts
from foldline.language_models.text._text_call import TextCall
from foldline.messages import BaseMessage
from foldline.outputs import GenerationChunk, LLMResult, RunInfo
from foldline.prompt_values import PromptValue
from foldline.runnables._trace import NOTHING, add_up, batch_inputs, batch_progress, runs_of
from foldline.utils._author_arguments import passes_argument

if TYPE_CHECKING:
    from foldline.utils.progress import ProgressOption

__all__ = ["BaseLLM"]


class BaseLLM(BaseLanguageModel[str], ABC):
    """A model that continues text. The author writes `_generate` (many prompts), and may write `_stream`.

    ```python
    from foldline.language_models import FakeListLLM

    print(FakeListLLM(responses=["Paris"]).invoke("The capital of France is "))
    #> Paris
    ```
    """

    _profile: ClassVar[ModelProfile | None] = None
    """Nothing is known: profiles are about chat models."""
    _output_version: ClassVar[Literal["v0", "v1"]] = "v0"
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

    # -- what a call needs of its model

    @property
    def _author(self) -> TextAuthor:
        """The methods that the author of this class wrote."""
        return TextAuthor.of(type(self), BaseLLM)

    _settings = property(
        settings_reader("model_options", "hooks", "guards", "guard_mode", "max_input_tokens")
    )

    def _request(self, value: object, run: Run, *, stream: bool) -> ChatRequest:
        options = dict(run.kwargs)
        stop = options.pop("stop", None)
        return ChatRequest([plain_human(text_of(value))], stop, options, stream)

    def _streaming_disabled(self, options: Params) -> bool:
        return False

    def count_tokens(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Count the tokens of the prompt that messages make."""
        n = self.get_num_tokens(prompt_of(ChatRequest(list(messages))))
        return TokenCount(n, exact=self.custom_get_token_ids is not None)

    def _request_size(self) -> int | None:
        """Return how many prompts fit in one request; None: all."""
        return None

    def _request_concurrency(self) -> int:
        """Return how many requests for several prompts may be in progress at once."""
        return 1

    def _output_limit(self, options: Params) -> int | None:
        """Return the tokens that the answers to one prompt have at most."""
        limit = options.get("max_tokens") or setting_of(self, "max_tokens")
        return limit if isinstance(limit, int) and limit > 0 else None  # -1 means no limit

    def _read_usage(self, output: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the counts in an `llm_output` or a `generation_info`, under the names of `UsageMetadata`."""
        return read_counts(output)

    def _stream_output(self, answer: GenerationChunk) -> Params | None:
        """Return the `llm_output` of a streamed answer."""
        return None

    # -- views of a call

    def _invoke_traced(self, input: object, run: Run) -> Coroutine[Any, Any, str]:
        return TextCall(self, input, run, stream=False).answer_text()

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
                prompts = [text_of(value) for value in part]
                runs = [run_of(start + index).patched() for index in range(len(part))]
                try:
                    calls = await answer_prompts(self, prompts, runs, io)
                    results += [call.generations[0].text for call in calls]
                except Exception as error:
                    if not keep_errors:
                        raise
                    results += [error] * len(part)
                if progress_bar is not None:
                    progress_bar.advance(len(part))
        return results

    def _stream_traced(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        if self._author.streams:
            return TextCall(self, input, run, stream=True).pieces()
        return self._answer_as_stream(input, run)

    async def _answer_as_stream(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        yield await self._step(input, run)

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
        kwargs = with_stop(stop, kwargs)
        runs = runs_of_prompts(
            BLOCKING, prompts, callbacks, tags, metadata, run_name, run_id, kwargs
        )
        return drive(self._generate_each(prompts, runs, BLOCKING))

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
        kwargs = with_stop(stop, kwargs)
        runs = runs_of_prompts(ASYNC, prompts, callbacks, tags, metadata, run_name, run_id, kwargs)
        return await self._generate_each(prompts, runs, ASYNC)

    async def _generate_each(self, prompts: list[str], runs: list[Run], io: IO) -> LLMResult:
        prompt_list: Any = prompts
        if not isinstance(prompt_list, list) or not all(
            isinstance(item, str) for item in prompt_list
        ):
            raise UsageError(
                "generate takes a list of texts: use invoke for one, generate_prompt for prompt values"
            )
        calls = await answer_prompts(self, prompts, runs, io) if prompts else []
        generations: Any = [call.generations for call in calls]
        result = LLMResult(generations=generations)
        outputs = [call.llm_output for call in calls]
        if any(output is not None for output in outputs):
            result.llm_output = self._combine_llm_outputs(outputs)
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
