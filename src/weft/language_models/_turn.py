"""One turn of a chat model, phase by phase: the template method behind every public API.

    coerce input -> resolve options -> preprocess -> [cache] -> [rate limit -> call -> fold, again on a retryable
    failure] -> postprocess -> cache -> callbacks

`events()` gives the turn as a stream; `answer()` gives its end. Both go through the same phases; `answer()` asks a
model that has a `_generate` for the whole answer at once, unless a listener wants the events.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from weft._run import Run
from weft.callbacks.dispatch import listening
from weft.exceptions import ModelError, StreamClosedError, StreamTruncatedError
from weft.language_models import _sources
from weft.language_models._cache import TurnCache
from weft.language_models.request import ChatRequest
from weft.messages import AIMessage
from weft.messages._view import ChunkView
from weft.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, LLMResult
from weft.protocol.events import Event
from weft.protocol.fold import MessageBuilder
from weft.protocol.replay import message_to_events
from weft.tracers._streaming import StreamingHandler, V2StreamingHandler
from weft.utils.uuid import new_id

if TYPE_CHECKING:
    from weft.language_models.chat_models import BaseChatModel

CONTENT_EVENTS = frozenset({"content-block-start", "content-block-delta", "content-block-finish"})


class Turn:
    """One call of a chat model: its request, what was said so far, and how it ended."""

    def __init__(self, model: BaseChatModel, value: Any, run: Run, *, stream: bool) -> None:
        self.model = model
        self.run = run.with_local(model.callbacks, model.tags, model.metadata, verbose=model.verbose)
        if self.run is run and run.manager is not None:
            self.run = run.patched()  # a run is begun once: this turn's own
        self.value = value
        self.stream = stream
        self.request: ChatRequest | None = None
        self.builder = MessageBuilder()
        self.message: AIMessage | None = None
        """The assembled message, once the turn is over; the partial one if it failed."""
        self.error: BaseException | None = None
        self.attempts = 0
        self.tokens = False
        """Whether v1 tokens are told (`on_llm_new_token`): under `stream()`, or for a v1 listener."""
        self._is_watched = False

    # -- views

    async def events(self) -> AsyncGenerator[Event, None]:
        """Give the turn as events, callbacks told."""
        request = await self._open()
        view = self._view()
        is_told = self._is_watched or view is not None
        try:
            cache = TurnCache.of(self.model, request, self.run.io)
            kept = await cache.lookup() if cache is not None else None
            said = self._attempts(request) if kept is None else self._kept(kept)
            async with aclosing(said):
                async for event in said:
                    if is_told:
                        await self._tell_event(event, view)
                    yield event
            result = await self._conclude(request)
            if cache is not None and kept is None:
                await cache.update(result.generations)
        except GeneratorExit:
            await self._fail(StreamClosedError("the stream was closed before its end", **self._where()))
            raise
        except BaseException as error:
            await self._fail(error)
            raise
        if self.run.manager is not None:
            await self._tell_end(result)

    async def answer(self) -> ChatResult:
        """Give the end of the turn, callbacks told."""
        if self._wants_events():
            async with aclosing(self.events()) as events:
                async for _ in events:
                    pass
            return ChatResult(generations=[ChatGeneration._trusted(cast("AIMessage", self.message))])
        request = await self._open()
        try:
            result = await self._whole(request)
            self.message = cast("AIMessage", result.generations[0].message)
        except BaseException as error:
            await self._fail(error)
            raise
        if self.run.manager is not None:
            await self._tell_end(result)
        return result

    # -- phases

    async def _open(self) -> ChatRequest:
        request = self.model._request(self.value, self.run, stream=self.stream)
        if self.run.manager is not None:
            self._is_watched = bool(listening(self.run.handlers, "on_stream_event"))
            await self.model._tell_start(request, self.run)
        try:
            self.request = await self.model._preprocess(request, self.run)
        except BaseException as error:
            await self._fail(error)
            raise
        return self.request

    def _wants_events(self) -> bool:
        written = _sources.written_by(type(self.model))
        if self.run.manager is not None and not self.model._streaming_disabled(self.run.kwargs):
            v2 = any(isinstance(handler, V2StreamingHandler) for handler in self.run.handlers)
            v1 = any(isinstance(handler, StreamingHandler) for handler in self.run.handlers)
            self.tokens = self.tokens or v1
            if v2 or (v1 and written.speaks):
                self.stream = True  # also the wire streams: the listener is there to see pieces
                return True
        return not written.generates

    async def _kept(self, generations: list[ChatGeneration]) -> AsyncGenerator[Event, None]:
        """Replay an answer from the cache, with the id that is returned."""
        self.message = cast("AIMessage", generations[0].message)
        for event in message_to_events(self.message):
            self.builder.feed(event)
            yield event

    async def _attempts(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """Ask until an answer comes, or an error that may not be tried again; fold what passes."""
        policy = self.model._retry_policy
        while True:
            self.attempts += 1
            is_delivered = False
            feed = self.builder.feed
            try:
                if self.model.rate_limiter is not None:
                    await self.model._wait_for_turn(self.run)
                async with aclosing(_sources.speak(self.model, request, self.run)) as events:
                    async for event in events:
                        if is_delivered and event["event"] == "content-block-delta":
                            feed(event)  # by far the most
                            yield event
                            continue
                        for checked in self._checked(event):
                            is_delivered = is_delivered or checked["event"] in CONTENT_EVENTS
                            yield checked
                for closing in self._closing():
                    yield closing
                return
            except ModelError as error:
                if is_delivered or not policy.allows(error, self.attempts):
                    raise
                await self._before_retry(error, policy.delay(self.attempts, error))

    async def _before_retry(self, error: ModelError, delay: float) -> None:
        self.builder = MessageBuilder()
        await self.run.tell("on_retry", {"attempt": self.attempts, "error": error, "delay": delay})
        await self.run.io.sleep(delay)

    def _checked(self, event: Event) -> Iterator[Event]:
        """Fold an event; begin the message where the source did not; raise what an `error` event says."""
        if not self.builder.is_started:
            for opening in _opening(event, self.run):
                self.builder.feed(opening)
                yield opening
            if event["event"] == "message-start":
                return
        self.builder.feed(event)
        if event["event"] == "error":
            raise _error_of(event, **self._where())
        yield event

    def _closing(self) -> Iterator[Event]:
        """End the message where the source did not."""
        if not self.builder.is_started:
            raise StreamTruncatedError("the model gave no event at all", is_retryable=False, **self._where())
        if not self.builder.is_finished:
            for closing in _closing(self.builder):
                self.builder.feed(closing)
                yield closing

    async def _whole(self, request: ChatRequest) -> ChatResult:
        cache = TurnCache.of(self.model, request, self.run.io)
        kept = await cache.lookup() if cache is not None else None
        if kept is not None:
            return ChatResult(generations=kept)
        policy = self.model._retry_policy
        while True:
            self.attempts += 1
            try:
                if self.model.rate_limiter is not None:
                    await self.model._wait_for_turn(self.run)
                result = await _sources.generate(self.model, request, self.run)
                break
            except ModelError as error:
                if not policy.allows(error, self.attempts):
                    raise
                await self._before_retry(error, policy.delay(self.attempts, error))
        for generation in result.generations:
            _complete(generation, self.model, self.run)
        result = await self.model._postprocess(request, result, self.run)
        if cache is not None:
            await cache.update(result.generations)
        return result

    def _assembled(self) -> AIMessage:
        message = AIMessage.from_fold(self.builder.result(), self.model._output_version)
        if self.attempts > 1:
            message.response_metadata["retries"] = self.attempts - 1
        return message

    async def _conclude(self, request: ChatRequest) -> ChatResult:
        message = self.message or self._assembled()
        result = ChatResult(generations=[ChatGeneration._trusted(message)])
        result = await self.model._postprocess(request, result, self.run)
        self.message = cast("AIMessage", result.generations[0].message)
        return result

    # -- ends

    @property
    def partial(self) -> AIMessage:
        """What has been said so far, marked incomplete."""
        return AIMessage.from_fold(self.builder.result(partial=True), self.model._output_version)

    async def _fail(self, error: BaseException) -> None:
        self.error = error
        self.message = self.partial
        if isinstance(error, ModelError):
            error.attempts = max(self.attempts, 1)
            error.partial = error.partial or self.message
            error.provider = error.provider or self._where()["provider"]
            error.model = error.model or self._where()["model"]
        partial = LLMResult(generations=[[ChatGeneration._trusted(self.message)]])
        await self.run.tell("on_llm_error", error, response=partial)

    async def _tell_end(self, result: ChatResult) -> None:
        told = LLMResult(generations=[result.generations], llm_output=result.llm_output)
        await self.run.tell("on_llm_end", told)

    def _view(self) -> ChunkView | None:
        wanted = self.tokens and listening(self.run.handlers, "on_llm_new_token")
        return ChunkView(self.model._output_version) if wanted else None

    async def _tell_event(self, event: Event, view: ChunkView | None) -> None:
        if self._is_watched:
            await self.run.tell("on_stream_event", event)
        chunk = view.feed(event) if view is not None else None
        if chunk is not None:
            generation = ChatGenerationChunk(message=chunk)
            await self.run.tell("on_llm_new_token", str(chunk.text), chunk=generation)

    def _where(self) -> dict[str, Any]:
        return {"provider": self.model._provider, "model": self.model._model_name}


def _complete(generation: ChatGeneration, model: BaseChatModel, run: Run) -> None:
    """Give a generated message an id, and its generation's metadata where it has none of its own (T64)."""
    message = generation.message
    if message.id is None:
        message.id = _run_id(run)
    if generation.generation_info:
        message.response_metadata = {**generation.generation_info, **message.response_metadata}


def _run_id(run: Run) -> str:
    return f"lc_run--{run.id or new_id()}"


def _opening(event: Event, run: Run) -> list[Event]:
    if event["event"] != "message-start":
        return [{"event": "message-start", "role": "ai", "id": _run_id(run)}]
    return [event if event.get("id") else {**event, "id": _run_id(run)}]


def _closing(builder: MessageBuilder) -> list[Event]:
    """Finish what a native producer left open, then the message itself."""
    finishes: list[Event] = [
        {"event": "content-block-finish", "index": index, "content": cast("Any", builder.block(index))}
        for index in builder.open_indexes()
    ]
    return [*finishes, {"event": "message-finish"}]


def _error_of(event: Any, **where: Any) -> ModelError:
    return ModelError(
        event["message"], code=event.get("code"), is_retryable=bool(event.get("retryable", False)), **where
    )
