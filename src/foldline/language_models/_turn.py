"""One turn of a chat model, phase by phase: the template method behind every public API.

    coerce input -> resolve options -> preprocess -> [cache] -> [rate limit -> call -> fold, again on a retryable
    failure] -> postprocess -> cache -> callbacks

`events()` gives the turn as a stream; `answer()` gives its end. Both go through the same phases; `answer()` asks a
model that has a `_generate` for the whole answer at once, and only folds what another one says, unless a listener
wants the events. What a stream delivers
begins with its first content, so that an attempt which fails before it leaves no trace.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, cast

from foldline._run import Run
from foldline.callbacks.dispatch import listening
from foldline.exceptions import (
    BudgetExceeded,
    ModelError,
    StreamClosedError,
    StructuredOutputError,
)
from foldline.globals import SETTINGS
from foldline.language_models import _sources
from foldline.language_models._again import (
    summed_message,
    usage_of_failure,
)
from foldline.language_models._attempts import folded, spoken
from foldline.language_models._cache import TurnCache
from foldline.language_models._deadline import pause
from foldline.language_models._whole import generate, result_of
from foldline.language_models._written import Written, written_by
from foldline.language_models.request import ChatRequest
from foldline.language_models.usage import SCOPE
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from foldline.messages._view import ChunkView
from foldline.messages.usage import UsageMetadata, add_usage
from foldline.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, LLMResult
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.replay import describe
from foldline.runnables._opening import Opening
from foldline.tracers._streaming import StreamingHandler, V2StreamingHandler

if TYPE_CHECKING:
    from foldline.language_models._care import Care
    from foldline.language_models.chat_models import BaseChatModel

OutputVersion = Literal["v0", "v1"]
NAMELESS = frozenset({HumanMessage, SystemMessage})
"""Messages that name no tool."""


class Turn:
    """One call of a chat model: what was said so far, and how it ended."""

    # Defaults on the class: most turns are plain calls, which set none of these.
    result: ChatResult | None = None
    message: AIMessage | None = None
    """The assembled message, once the turn is over; the partial one if it failed."""
    error: BaseException | None = None
    attempts = 0
    spent: UsageMetadata | None = None
    """What failed attempts spent."""
    care: Care | None = None
    """What a managed call adds; None for a plain one."""
    is_answer = False
    """Whether the caller gets the end only, so that nothing is delivered before it."""
    tail = ""
    """What the block that finished just now said beyond its deltas (T15)."""
    tokens = False
    """Whether v1 tokens are told (`on_llm_new_token`): under `stream()`, or for a v1 listener."""
    is_complete = False
    is_closing = False
    """Set by whoever closes the stream while it is read: its failure is then no failure of the model."""
    _is_watched = False
    _tells_tokens = False
    _builder: MessageBuilder | None = None

    def __init__(
        self,
        model: BaseChatModel,
        value: Any,
        run: Run,
        *,
        stream: bool,
        version: OutputVersion | None = None,
        opening: Opening | None = None,
    ) -> None:
        self.model = model
        self.run = run if opening is not None else _own_run(model, run)
        self.value = value
        self.stream = stream
        self.version = version
        """The form of the message; None for the model's own."""
        self._opening = opening

    @classmethod
    def opened(cls, model: BaseChatModel, opening: Opening) -> Turn:
        """Make the turn of a `stream_v2` call: its input and run are known when it is first read."""
        run = Run(opening.io, {}, None, {})
        return cls(model, None, run, stream=True, version="v1", opening=opening)

    @property
    def builder(self) -> MessageBuilder:
        """The fold of what was said in this attempt; made when something is."""
        if self._builder is None:
            self._builder = MessageBuilder(self.model._fold_limits)
        return self._builder

    @builder.setter
    def builder(self, builder: MessageBuilder) -> None:
        self._builder = builder

    # -- views

    def events(self, view: ChunkView | None = None) -> AsyncGenerator[Any, None]:
        """Give the turn as events, callbacks told; with a view, as the chunks it shows of them."""
        return spoken(self, view)

    async def answer(self) -> ChatResult:
        """Give the end of the turn, callbacks told."""
        self.is_answer = True
        written = written_by(type(self.model))
        if self.run.manager is not None and self._wants_events(written):
            return await self._answer_by_events()
        request = await self._open()
        if not written.generates and self._has_hearers:
            return await self._answer_by_events(request)
        try:
            result = await self._whole(request, written)
            self.message = result.generations[0].message  # type: ignore[assignment]
        except BaseException as error:
            await self._fail(error)
            raise
        if self.run.manager is not None:
            await self._end(result)
        return result

    @property
    def _has_hearers(self) -> bool:
        """Whether anybody but the caller wants to know of single events."""
        is_watching = self.care is not None and self.care.is_watching
        return is_watching or self._is_watched or self._tells_tokens

    async def _answer_by_events(self, request: ChatRequest | None = None) -> ChatResult:
        async with aclosing(spoken(self, None, request)) as events:
            async for _ in events:
                pass
        return cast("ChatResult", self.result)

    # -- phases

    async def _open(self) -> ChatRequest:
        if self._opening is not None:
            self.value, run = await self._opening.begin()
            self.run = _own_run(self.model, run)
        try:
            request = self.model._request(self.value, self.run, stream=self.stream)
            request.note = self._note
            is_plain = self._is_plain(request)
            if not is_plain or request.options or self.run.given:
                from foldline.language_models._care import care_of  # noqa: PLC0415  of managed calls

                self.care = care_of(self, request, is_plain=is_plain)
            if self.run.manager is not None:
                self._is_watched = bool(listening(self.run.handlers, "on_stream_event"))
                self._tells_tokens = self._wants_tokens()
                await self.model._tell_start(request, self.run)
            if written_by(type(self.model)).preprocesses:
                request = await self.model._preprocess(request, self.run)
                request.note = self._note
            if self.care is not None:
                request = await self._prepared(self.care, request)
                request.note = self._note
        except BaseException as error:
            await self._fail(error)
            raise
        return request

    def _is_plain(self, request: ChatRequest) -> bool:
        """Whether nothing but the call's own options can ask for care."""
        model = self.model
        if SCOPE.get() is not None or model._is_managed():
            return False
        # Names of tools that the provider may not take stand in options and in what was said before.
        are_names_free = model._tool_name_pattern is None
        if not are_names_free and request.options:
            return False
        for message in request.messages:
            if type(message.content) is list or not (are_names_free or type(message) in NAMELESS):
                return False
        return True

    async def _prepared(self, care: Care, request: ChatRequest) -> ChatRequest:
        try:
            return await care.prepare(request)
        except Exception as error:
            outcome = await care.recover(request, error)
            if isinstance(outcome, AIMessage):
                return request
            if outcome is not error:
                raise outcome from error
            raise

    async def _found(
        self, request: ChatRequest
    ) -> tuple[TurnCache | None, list[ChatGeneration] | None]:
        """Give the cache of this turn, and the answer that needs no asking, if there is one."""
        care = self.care
        if care is not None and care.rescue is not None:
            return None, [ChatGeneration._trusted(care.rescue)]
        cache = TurnCache.of(self.model, request, self.run.io, care)
        kept = await cache.lookup() if cache is not None else None
        if kept is not None and care is not None:
            kept = await care.approved(kept)
        return cache, kept

    @property
    def _is_rescued(self) -> bool:
        return self.care is not None and self.care.rescue is not None

    def _wants_events(self, written: Written) -> bool:
        if self.model._streaming_disabled(self.run.kwargs):
            return False
        if any(isinstance(handler, V2StreamingHandler) for handler in self.run.handlers):
            self.stream = written.speaks
            return True
        if any(isinstance(handler, StreamingHandler) for handler in self.run.handlers):
            self.tokens = self.stream = written.speaks
            return written.speaks
        return False

    def source(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """Give what the model says: at once where the caller streams and the model may not."""
        is_whole = self.stream and not request.stream
        speak = _sources.speak_whole if is_whole else _sources.speak
        return speak(self.model, request, self.run)

    async def _recovered(
        self, care: Care, request: ChatRequest, error: Exception
    ) -> Exception | AIMessage:
        """Let the call's hook see the error that ends it."""
        if isinstance(error, StructuredOutputError):
            error.usage = add_usage(self.spent, error.usage)
        return await care.recover(request, error)

    def _goes_on(self, error: Exception, *, is_delivered: bool) -> bool:
        """Whether the attempt that failed is followed by another."""
        if self.care is None:
            policy = self.model._retry_policy
            may_begin = not is_delivered or policy.on_partial == "reset"
            return may_begin and policy.allows(error, self.attempts)
        if is_delivered and not self.care.may_reset(error):
            return False
        return self.care.retries(error, self.attempts)

    async def _before_retry(self, error: Exception, request: ChatRequest) -> ChatRequest:
        """Count what was spent, say that it is tried again, wait; give the next attempt's request."""
        if (usage := usage_of_failure(error, self.builder)) is not None:
            self.spent = add_usage(self.spent, usage)
        self.builder = MessageBuilder(self.model._fold_limits)
        if self.care is None:
            delay = self.model._retry_policy.delay(self.attempts, error)
        else:
            delay = self.care.delay(error, self.attempts)
            request = self.care.next_request(request, error)
        await self.run.tell("on_retry", {"attempt": self.attempts, "error": error, "delay": delay})
        if delay:
            await pause(delay, self.run.io)
        return request

    async def _whole(self, request: ChatRequest, written: Written) -> ChatResult:
        care, model = self.care, self.model
        if care is None and model.cache is None and SETTINGS.llm_cache is None:
            cache = kept = None
        else:
            cache, kept = await self._found(request)
        if kept is not None:
            result = ChatResult(generations=[self._in_own_form(one) for one in kept])
            return result if care is None else await care.conclude(request, result)
        result = await self._asked(request, is_generated=written.generates)
        if model.output_version is not None and self._version == "v1":
            said = [self._in_own_form(one) for one in result.generations]
            result = ChatResult(generations=said, llm_output=result.llm_output)
        if care is not None and care.rescue is not None:
            return result
        if written.postprocesses:
            result = await model._postprocess(request, result, self.run)
        if cache is not None:
            await cache.update(result.generations)
        return result if care is None else await care.conclude(request, result)

    async def _asked(self, request: ChatRequest, *, is_generated: bool) -> ChatResult:
        care = self.care
        while True:
            self.attempts += 1
            try:
                if self.model.rate_limiter is not None:
                    await self.model._wait_for_turn(self.run)
                result = await self._answered(request, is_generated=is_generated)
            except Exception as error:
                # Content is paid for: a model that had begun to speak is not asked again, nor is one that streams.
                is_begun = not is_generated and self.builder.has_content
                if self._goes_on(error, is_delivered=is_begun):
                    request = await self._before_retry(error, request)
                    continue
                if care is None:
                    raise
                outcome = await self._recovered(care, request, error)
                if isinstance(outcome, AIMessage):
                    return ChatResult(generations=[ChatGeneration._trusted(outcome)])
                if outcome is not error:
                    raise outcome from error
                raise
            if self.attempts > 1:
                message = cast("AIMessage", result.generations[0].message)
                spent = self.spent if is_generated else None  # events have it in their last one
                summed_message(message, spent, self.attempts - 1)
            return result

    async def _answered(self, request: ChatRequest, *, is_generated: bool) -> ChatResult:
        if not is_generated:
            return result_of(AIMessage.from_fold(await folded(self, request), self._version))
        if self.care is not None and self.care.is_watching:
            return await self.care.generate(request)
        return await generate(self.model, request, self.run)

    def _in_own_form(self, generation: ChatGeneration) -> ChatGeneration:
        """Give a kept answer in the form this call returns: another call may have kept it in the other one."""
        message = generation.message
        is_v1 = message.response_metadata.get("output_version") == "v1"
        if not isinstance(message, AIMessage) or is_v1 is (self._version == "v1"):
            return generation
        folded = describe(message)
        folded.metadata.pop("output_version", None)
        return ChatGeneration._trusted(AIMessage.from_fold(folded, self._version))

    async def _conclude(
        self, request: ChatRequest, kept: list[ChatGeneration] | None
    ) -> ChatResult:
        message = AIMessage.from_fold(self.builder.result(), self._version)
        if self._version == "v0":
            message.response_metadata.pop(
                "output_version", None
            )  # of a message that was kept as v1
        if self.attempts > 1:
            message.response_metadata["retries"] = self.attempts - 1
        result = result_of(message)
        if kept is not None:  # it was processed before it was kept
            result.generations += [self._in_own_form(one) for one in kept[1:]]
        elif written_by(type(self.model)).postprocesses and not self._is_rescued:
            result = await self.model._postprocess(request, result, self.run)
        self.message = cast("AIMessage", result.generations[0].message)
        self.result = result
        return result

    # -- ends

    @property
    def _version(self) -> OutputVersion:
        return self.version or self.model._output_version

    @property
    def partial(self) -> AIMessage:
        """What has been said so far, marked incomplete."""
        return AIMessage.from_fold(self.builder.result(partial=True), self._version)

    def _note(self, **heard: Any) -> None:
        if not self.builder.is_finished:
            self.builder.note(**heard)

    async def _fail(self, error: BaseException) -> None:
        is_closed = self.is_closing or isinstance(error, GeneratorExit)
        if is_closed:
            error = StreamClosedError("the stream was closed before its end", **self._where())
        self.error = error
        self.message = self.partial
        if isinstance(error, BudgetExceeded) and self.message.content:
            error.partial = error.partial or self.message
        if isinstance(error, ModelError):
            error.attempts = max(self.attempts, 1)
            error.partial = error.partial or self.message
            error.provider = error.provider or self.model._provider
            error.model = error.model or self.model._model_name
        if self.run.manager is not None:
            partial = LLMResult(generations=[[ChatGeneration._trusted(self.message)]])
            await self.run.tell("on_llm_error", error, response=partial)
        if self._opening is not None:
            ended = self._opening.end(self.message) if is_closed else self._opening.fail(error)
            await ended

    async def _end(self, result: ChatResult) -> None:
        self.is_complete = True
        try:
            if self.run.manager is not None:
                told = LLMResult(generations=[result.generations], llm_output=result.llm_output)
                await self.run.tell("on_llm_end", told)
        finally:
            if self._opening is not None:
                await self._opening.end(self.message)

    def _wants_tokens(self) -> bool:
        wanted = self.tokens or any(isinstance(one, StreamingHandler) for one in self.run.handlers)
        return wanted and bool(listening(self.run.handlers, "on_llm_new_token"))

    async def _tell(self, event: Event, chunk: AIMessageChunk | None) -> None:
        if self._is_watched:
            await self.run.tell("on_stream_event", event)
        if chunk is not None and self._tells_tokens:
            generation = ChatGenerationChunk._trusted(chunk)
            await self.run.tell("on_llm_new_token", str(chunk.text), chunk=generation)

    def _where(self) -> dict[str, Any]:
        return {"provider": self.model._provider, "model": self.model._model_name}


def _own_run(model: BaseChatModel, run: Run) -> Run:
    """Give the run of one turn: with what the model's constructor adds, and begun once."""
    if run.manager is None and not model.callbacks and not model.verbose:
        return run
    options = dict(run.kwargs)
    told = {**model._get_ls_params(options.pop("stop", None), **options), **(model.metadata or {})}
    own = run.with_local(model.callbacks, model.tags, told, verbose=model.verbose)
    return run.patched() if own is run else own
