"""`TextCall`: a call of a text model. What handlers, the cache and the caller get is text instead of messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from foldline._run import Run
from foldline._streams.answer import Batch, CompleteAnswer
from foldline._streams.state import CHUNKS, MESSAGE, Origin
from foldline.callbacks.dispatch import listening
from foldline.language_models._call.cache import (
    CacheSlot,
    CallCache,
    cache_in_force,
    has_complete_reason,
)
from foldline.language_models._call.cache_key import text_model_key
from foldline.language_models._call.call import ChatCall
from foldline.language_models._call.listeners import TOKEN, CallListeners
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.language_models._call.structured_format import StructuredFormat
from foldline.language_models.text._text_author import TextGeneration, chunks_of, prompt_of
from foldline.load._lazy_dump import LazyDump
from foldline.messages import AIMessage
from foldline.outputs import (
    ChatGeneration,
    ChatResult,
    Generation,
    GenerationChunk,
    LLMResult,
)
from foldline.outputs.generation import Info

if TYPE_CHECKING:  # it makes these
    from foldline.language_models.text.base_llm import BaseLLM

__all__ = ["TextCall"]

ADDED_KEYS: Final = frozenset({"cost", "lost", "retries"})
"""What a call adds to the metadata of a message: no part of an author's `generation_info`."""


class TextCall(ChatCall):
    """One prompt, from its input to its text."""

    batch_size = 1
    """How many prompts were passed with this one."""

    async def answer_text(self) -> str:
        """Run the call to its end; return the text."""
        self.view = MESSAGE
        async for _ in self._life(None):
            pass
        return cast("ChatResult", self.result).generations[0].text

    def pieces(self) -> AsyncGenerator[str, None]:
        """Return the call as pieces of text."""
        self.view = CHUNKS
        return self._life(_show_text)

    @property
    def generations(self) -> list[Generation]:
        """The answers; the author's own objects if nothing has changed them."""
        assert self.result is not None
        return [self._text_generation(generation) for generation in self.result.generations]

    @property
    def llm_output(self) -> dict[str, Any] | None:
        """The provider's output; empty if a cache answered, because then nothing was spent."""
        if self.result is None or self.origin is Origin.CACHE:
            return {}
        if self.answer is None:
            generation = cast("GenerationChunk", self.generations[0])
            output = cast("BaseLLM", self.model)._stream_output(generation)
        else:
            output = self.result.llm_output
        fault = None if self._cache is None else self._cache.fault
        return output if fault is None else {**(output or {}), "cache_error": fault}

    @property
    def retry_policy(self) -> RetryPolicy:
        """How failed attempts are retried; pieces of text cannot be taken back."""
        policy = super().retry_policy
        return policy if policy.on_partial == "raise" else replace(policy, on_partial="raise")

    def _own_run(self, run: Run) -> Run:
        model = self.model
        if run.manager is None and not model.callbacks and not model.verbose:
            return run
        metadata = {**model._get_ls_params(**run.kwargs), **(model.metadata or {})}
        return run.with_local(model.callbacks, model.tags, metadata, verbose=model.verbose)

    def _listeners(self) -> CallListeners:
        return TextListeners(self.model, self.run, batch_size=self.batch_size)

    # -- the cache: a stream is neither looked up nor stored

    @property
    def _looks_up(self) -> bool:
        return self.view is MESSAGE and super()._looks_up

    async def _look_up(self, request: ChatRequest) -> CompleteAnswer | None:
        cache = cache_in_force(self.model.cache) if self.view is MESSAGE else None
        if cache is None:
            return None
        options, policies = request.options, self.settings.cache_key()
        options = options if policies is None else {**options, "policies": policies}
        key = prompt_of(request), text_model_key(self.model, request.stop, options)
        self._cache = TextCache(CacheSlot(cache, key, self.run.io), self)
        cached = await self._cache.lookup()
        return None if cached is None else CompleteAnswer(ChatResult(generations=cached))

    # -- the end

    def _dispatch_end(self, result: ChatResult) -> Awaitable[None] | None:
        output = LLMResult._trusted([self.generations], self.llm_output)
        return self.run.dispatch_now("on_llm_end", (output,), {})

    def _partial_output(self, message: AIMessage) -> LLMResult:
        if self.answer is not None:
            answers = [self._text_generation(each) for each in self.answer.result.generations]
        elif self.builder.is_started:
            answers = [self._text_generation(ChatGeneration._trusted(message))]
        else:
            answers = []
        return LLMResult._trusted([answers], None)

    def _text_generation(self, generation: ChatGeneration) -> Generation:
        if type(generation) is TextGeneration:
            return generation.source
        if self.answer is not None:
            return Generation(text=generation.text, generation_info=generation.generation_info)
        metadata = generation.message.response_metadata
        info: Info = {key: value for key, value in metadata.items() if key not in ADDED_KEYS}
        kind = Generation if self.view is MESSAGE else GenerationChunk
        return kind(text=generation.text, generation_info=info or None)


def _show_text(batch: Batch) -> list[Any]:
    return [chunk.text for chunk in chunks_of(batch)]


class TextListeners(CallListeners):
    """The handlers of a text model's call: they get prompts, pieces of text and generations."""

    __slots__ = ("_batch_size",)

    def __init__(self, model: CallModel, run: Run, *, batch_size: int) -> None:
        super().__init__(model, run, is_invoke=True, emits_tokens=False)
        self._batch_size = batch_size

    def choose_stream(self, *, stream: bool, can_stream: bool) -> bool:
        """Return whether to request a stream: as the caller does; no handler turns it on."""
        return stream

    def choose_events(self, *, stream: bool, generates: bool) -> None:
        """Set whether handlers get pieces: of a stream."""
        self.tells_events = stream and bool(listening(self._run.handlers, TOKEN))

    def dispatch_start(
        self, request: ChatRequest, structured: StructuredFormat
    ) -> Awaitable[None] | None:
        """Dispatch the start of the call."""
        model, run, stop, options = self._model, self._run, request.stop, request.options
        details: dict[str, Any] = {
            "invocation_params": model._get_invocation_params(stop, **options),
            "options": {"stop": stop, **options},
            "name": run.call_config.get("run_name") or model.get_name(),
            "batch_size": self._batch_size,
        }
        return run.begin_now("on_llm_start", (LazyDump(model), [prompt_of(request)]), details)

    def dispatch_batch(self, batch: Batch) -> Awaitable[None] | None:
        """Dispatch the pieces of a batch, of which most have one."""
        chunks = chunks_of(batch)
        if len(chunks) == 1:
            return self._run.dispatch_now(TOKEN, (chunks[0].text,), {"chunk": chunks[0]})
        return self._dispatch_chunks(chunks) if chunks else None

    async def _dispatch_chunks(self, chunks: list[GenerationChunk]) -> None:
        for chunk in chunks:
            await self._run.dispatch(TOKEN, chunk.text, chunk=chunk)


class TextCache(CallCache):
    """The cache of a text model's call: of generations, by the prompt itself."""

    __slots__ = ("_call",)

    def __init__(self, slot: CacheSlot, call: TextCall) -> None:
        super().__init__(slot)
        self._call = call

    async def lookup(self) -> list[ChatGeneration] | None:
        """Return the cached answer."""
        cached = await self._slot.lookup()
        return None if cached is None else [TextGeneration.of(source) for source in cached]

    async def update(
        self, generations: list[ChatGeneration], *, needs_reason: bool = False
    ) -> None:
        """Store an answer that is complete: it was not cut or filtered (F-K06)."""
        answers = [self._call._text_generation(generation) for generation in generations]
        needs_reason = cast("BaseLLM", self._call.model)._reports_finish_reason
        infos = [answer.generation_info or {} for answer in answers]
        if all(has_complete_reason(info, needs_reason=needs_reason) for info in infos):
            await self._slot.update(answers)
