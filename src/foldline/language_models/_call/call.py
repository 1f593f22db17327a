"""`ChatCall`: one call of a model, from its input to its message. Every public API is a view of it.

    prepare (coerce, settings, callbacks, policies) -> cached answer, or attempts ->
    conclude (postprocess, cache, policies, callbacks)

`_life` is the only body: `invoke` reads it to its end and returns the message, `stream` shows its events as chunks,
`stream_v2` and listeners read the events. The call is concluded before the batch with `message-finish` is yielded, so
a reader that stops there leaves a finished call.

A call is in one state, and the states and their moves are a table (`_streams/state.py`): what may happen now is an
attribute of the state, and a move that the table does not have raises. What the states mean:

- Before RECEIVING nothing was delivered: a failure can be retried, and the reader never knows. From RECEIVING on the
  reader has content, so a retry first sends `message-reset`, which takes it back.
- ANSWERED is the point of no return: the answer is complete and paid for. A reader that leaves now does not stop it:
  the conclusion (hooks, cache, end callbacks) still happens, once. That is why the last batch is held back until then.
- CONCLUDED, FAILED and CLOSED are final, and exactly one of them is reported to listeners, once.

Three facts are no states, because they do not change when the state does: `view` (what the caller reads), `origin` (who
answered), and `is_closing`. The last is the wish of a reader in any thread. If it were a state, that thread could
overwrite one that the reading thread has just reached; so only the reading thread moves, and looks at the wish.

Policies lie around the attempts like an onion: the request goes in through all of them, everything else comes out in
the opposite order. What a single attempt does, and when another one follows, is in `attempt`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, cast

from foldline._run import Run
from foldline._streams.answer import Batch, CompleteAnswer, chat_result
from foldline._streams.bounds import attach_partial
from foldline._streams.state import (
    ANSWERED,
    CHUNKS,
    CONCLUDED,
    EVENTS,
    MESSAGE,
    NEW,
    CallState,
    Origin,
    View,
)
from foldline._traceback import cut_traceback
from foldline.exceptions import BudgetExceeded, ModelError, StreamClosedError
from foldline.globals import SETTINGS
from foldline.language_models._call.attempt import attempts
from foldline.language_models._call.author import Author, run_message_id
from foldline.language_models._call.cache import CallCache
from foldline.language_models._call.listeners import CallListeners
from foldline.language_models._call.llm_output import llm_output_of
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.policies.stack import event_chain, policies_for
from foldline.language_models._call.policy import FoldedAttempt, Policy, Reservation
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.language_models._call.settings import NO_SETTINGS, CallSettings, take_settings
from foldline.language_models._call.structured_format import take_format
from foldline.language_models.profile import ModelProfile
from foldline.messages import AIMessage, AIMessageChunk
from foldline.messages._view import ChunkView
from foldline.messages.usage import UsageMetadata, add_request_usage
from foldline.outputs import ChatGeneration, ChatResult, LLMResult
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.replay import describe
from foldline.runnables._stream_call import StreamCall

__all__ = ["ChatCall"]

Show = Callable[[Batch], Iterable[AIMessageChunk]]
OutputVersion = Literal["v0", "v1"]
NO_PROFILE: ModelProfile = {}
MODEL, CACHE, HOOK, TAPE = Origin.MODEL, Origin.CACHE, Origin.HOOK, Origin.TAPE


class ChatCall:
    """One call of a model: its state so far, and its outcome."""

    # Defaults on the class: a plain call sets few of these. Flat, because each use of a group would be one more load.

    state: CallState = NEW
    view: View = EVENTS
    origin: Origin = MODEL
    is_closing = False
    """The wish of a reader, from any thread, to close the stream: a failure is then not the model's."""

    # The plan: made by `prepare`, and not changed after it.
    author: Author
    """The methods that the model's author wrote."""
    settings: CallSettings = NO_SETTINGS
    policies: Sequence[Policy] = ()
    event_policies: Sequence[Policy] = ()
    reservations: Sequence[Reservation] = ()
    received: FoldedAttempt | None = None
    version: OutputVersion | None = None
    """The form of the message; None for that of the model."""
    is_quiet: bool = False
    """Whether the events have no reader, so that a complete answer need not be folded; known once it is prepared."""
    _observers: CallListeners | None = None
    """The listeners, if one of them needs single events."""
    _stream_call: StreamCall | None = None
    _cache: CallCache | None = None

    # The tally: only the attempts change it.
    attempts = 0
    spent: UsageMetadata | None = None
    """The usage of failed attempts."""
    _builder: MessageBuilder | None = None

    # The outcome.
    answer: CompleteAnswer | None = None
    """The answer, if it came complete."""
    result: ChatResult | None = None
    message: AIMessage | None = None
    """The assembled message, once the call is over; the partial one if it failed."""
    error: BaseException | None = None
    undelivered: Batch = ()
    """The last batch, while the call is concluded: what an interrupted reader has not received."""
    _end_error: Exception | None = None

    def __init__(
        self,
        model: CallModel,
        value: object,
        run: Run,
        *,
        stream: bool,
        version: OutputVersion | None = None,
        stream_call: StreamCall | None = None,
    ) -> None:
        self.model = model
        self.run: Run = run if stream_call is not None else self._own_run(run)
        self.value: Any = value
        self.stream: bool = stream
        self.response_metadata: dict[str, Any] = {}
        if stream_call is not None:
            self._stream_call = stream_call
            self.version = version

    @property
    def llm_output(self) -> dict[str, Any] | None:
        """The provider's output; empty if a cache answered, because then nothing was spent."""
        if self.result is None or self.origin is CACHE:
            return {}
        return llm_output_of(self.result)

    @classmethod
    def of_stream_call(cls, model: CallModel, stream_call: StreamCall) -> ChatCall:
        """Make the call of a `stream_v2`: its input and run are known when it is first read."""
        run, view = Run(stream_call.io, {}, None, {}), stream_call.view
        version: OutputVersion | None = "v1" if view is EVENTS else None
        call = cls(model, None, run, stream=True, version=version, stream_call=stream_call)
        call.view = view
        return call

    # -- views

    async def answer_once(self) -> AIMessage:
        """Run the call to its end; return the message."""
        self.view = MESSAGE
        async for _ in self._life(None):
            pass
        assert self.message is not None
        return self.message

    def chunks(self) -> AsyncGenerator[AIMessageChunk, None]:
        """Return the call as v1 chunks."""
        self.view = CHUNKS
        return self._life(ChunkView(self.model._output_version).show)

    def batches(self, view: View | None = None) -> AsyncGenerator[Batch, None]:
        """Return the call as batches of events; handlers get what the view says."""
        if view is not None:
            self.view = view
        return self._life(None)

    async def _life(self, show: Show | None) -> AsyncGenerator[Any, None]:
        """Run the call; yield each batch, or the chunks that `show` makes of it, after its listeners were called."""
        try:
            self.state = self.state.begin
            request = await self.prepare()
            # A plain call has neither, and needs no other generator between it and its attempts.
            may_have_answer = self.policies or self._looks_up
            source = await self._source(request) if may_have_answer else attempts(self, request)
            listeners = self._observers
            dispatch = None if listeners is None else listeners.dispatch_batch
            show = show if listeners is None else _same_chunks(show, listeners)
            try:
                async for batch in source:
                    # Listeners before the reader: it may rely on what its callbacks have done.
                    if dispatch is not None and (waiting := dispatch(batch)):
                        await waiting
                    # Before the yield: a reader that takes the last batch and leaves has a concluded call.
                    if self.state is ANSWERED:
                        self.undelivered = batch
                        await self._conclude(request)
                        self.undelivered = ()
                    if show is None:
                        yield batch
                    else:
                        for chunk in show(batch):
                            yield chunk
            # Not in `finally`: a source that has ended is closed, and this would be paid for by every call.
            except BaseException:
                await source.aclose()
                raise
        except BaseException as error:
            # At the exit of Python nothing can be imported: a stream that was not read to its end just ends.
            if self.state is not CONCLUDED and not sys.is_finalizing():
                await self._fail(error)
            cut_traceback(error)
            raise
        # The answer is valid, and delivered: only now a callback that failed at its end may be heard.
        if self._end_error is not None:
            raise self._end_error

    # -- before the model is called

    async def prepare(self) -> ChatRequest:
        """Coerce the input, take the settings, dispatch the start; let the policies change the request."""
        if self._stream_call is not None:
            stream_call, self._stream_call = (
                self._stream_call,
                None,
            )  # an error of `begin` is not reported to it
            self.value, run = await stream_call.begin()
            self._stream_call = stream_call
            self.run = self._own_run(run)
        model, run = self.model, self.run
        self.author = author = model._author
        listeners: CallListeners | None = None
        if run.manager is not None:
            # Listeners may want tokens, so they have a say in whether the model streams.
            listeners = self._listeners()
            self.stream = listeners.choose_stream(stream=self.stream, can_stream=author.streams)
        request = model._request(self.value, run, stream=self.stream)
        structured = take_format(request.options) if request.options else None
        self.settings = take_settings(model, request, run.call_config.get("configurable") or {})
        if listeners is not None:
            listeners.choose_events(stream=request.stream, generates=author.generates)
            if listeners.need_events:
                self._observers = listeners
            if (waiting := listeners.dispatch_start(request, structured)) is not None:
                await waiting
        self.is_quiet = self.view is MESSAGE and self._observers is None
        self._attach(request)
        if author.preprocesses:
            request = await author.preprocess(model, request, run)
            self._attach(request)
        self.policies = policies_for(self, request)
        return await self._apply_before(request) if self.policies else request

    def _listeners(self) -> CallListeners:
        return CallListeners(
            self.model,
            self.run,
            is_invoke=self.view is MESSAGE,
            emits_tokens=self.view is CHUNKS,
        )

    async def _apply_before(self, request: ChatRequest) -> ChatRequest:
        policy_request = request
        try:
            for policy in self.policies:
                policy_request = await policy.before(policy_request)
                self._attach(policy_request)
        except Exception as error:  # noqa: BLE001  raised again unless a hook answers
            await self._answer_in_place(policy_request, error)
            return policy_request
        # After `before`, in which a policy may find that it need not watch the events of this request.
        self.event_policies = event_chain(self, self.policies)
        self.reservations = [
            policy.reservation for policy in self.policies if policy.reservation is not None
        ]
        return policy_request

    # -- an answer from elsewhere: of a hook, of a policy, of the cache

    async def _answer_in_place(self, request: ChatRequest, error: Exception) -> None:
        """Take a hook's answer in place of an error before the model was asked; raise if there is none."""
        outcome = await self.rescue(request, error)
        if isinstance(outcome, Exception):
            raise outcome from outcome.__cause__
        self.answer = outcome

    async def _source(self, request: ChatRequest) -> AsyncGenerator[Batch, None]:
        """Return the answer, found elsewhere or of the model, as batches."""
        if self.answer is None:
            await self._find_answer(request)
        return attempts(self, request) if self.answer is None else self._replay(self.answer)

    async def _find_answer(self, request: ChatRequest) -> None:
        """Take the answer of a policy, else of the cache; without one the model is asked."""
        try:
            # From outside to inside, and the cache last: it lies next to the model.
            for depth, policy in enumerate(self.policies):
                # Most policies have no answer, and awaiting that would be paid for by every call.
                if type(policy).answer is not Policy.answer:
                    await self._take_elsewhere(await policy.answer(request), TAPE, depth)
                    if self.answer is not None:
                        return
            if self._looks_up:
                await self._take_elsewhere(await self._look_up(request), CACHE, len(self.policies))
        except Exception as error:  # noqa: BLE001  raised again unless a hook answers
            await self._answer_in_place(request, error)

    async def _take_elsewhere(
        self, answer: CompleteAnswer | None, origin: Origin, depth: int
    ) -> None:
        """Take an answer if the policies outside of its place let it pass."""
        for policy in reversed(self.policies[:depth]):
            answer = None if answer is None else await policy.approve(answer)
        if answer is not None:
            self.answer, self.origin = answer, origin

    @property
    def _looks_up(self) -> bool:
        """Whether there may be a cache to look into."""
        return self.model.cache is not None or SETTINGS.llm_cache is not None

    async def _look_up(self, request: ChatRequest) -> CompleteAnswer | None:
        self._cache = CallCache.of(self.model, request, self.run.io, self.settings.cache_key())
        cached = await self._cache.lookup() if self._cache is not None else None
        return None if cached is None else CompleteAnswer(ChatResult(generations=cached))

    async def _replay(self, answer: CompleteAnswer) -> AsyncGenerator[Batch, None]:
        self.take_answer(answer)
        self.state = self.state.answer
        yield answer

    # -- while the model answers

    @property
    def profile(self) -> ModelProfile:
        """What the model can do, as far as it is known."""
        return self.model._profile or NO_PROFILE

    @property
    def model_label(self) -> str:
        """The name of the model in error texts: `openai:gpt-5`."""
        model = self.model
        parts = (model._provider, model._model_name)
        return ":".join(part for part in parts if part) or type(model).__name__

    @property
    def location(self) -> dict[str, Any]:
        """Provider and model, as arguments of errors."""
        return {"provider": self.model._provider, "model": self.model._model_name}

    @property
    def retry_policy(self) -> RetryPolicy:
        """How failed attempts are retried: by the setting of the call, else of the model."""
        call_policy = self.settings.retry_on_error
        return self.model._retry_policy if call_policy is None else RetryPolicy.of(call_policy)

    @property
    def builder(self) -> MessageBuilder:
        """The fold of the events of this attempt; made when it is first used."""
        if self._builder is None:
            self._builder = MessageBuilder(self.model._fold_limits)
            # Nobody else sees these events: the message takes their blocks over, instead of copying them.
            is_free = self.is_quiet and not self.event_policies
            self._builder.is_sole_owner = is_free and self.model._makes_new_events
        return self._builder

    def discard_attempt(self) -> None:
        """Discard what an attempt has left."""
        self._builder = self.answer = None
        for policy in self.event_policies:
            policy.begin()

    def take_answer(self, answer: CompleteAnswer) -> None:
        """Take an answer that came complete; it is folded only if its events have readers."""
        self.answer = answer
        if not self.is_quiet:
            self.builder.feed_all(answer)

    def add_spent(self, usage: UsageMetadata | None) -> None:
        """Count the usage of a failed attempt."""
        if usage is not None:
            self.spent = add_request_usage(self.spent, usage)

    async def rescue(self, request: ChatRequest, error: Exception) -> CompleteAnswer | Exception:
        """Let the policies see the error that ends the call; return an answer in its place, or the error to raise."""
        # From the model's side to the caller's: the outermost policy has the last word.
        for policy in reversed(self.policies):
            outcome = await policy.on_error(request, error)
            if isinstance(outcome, AIMessage):
                self.origin = HOOK
                if outcome.id is None:
                    outcome = outcome.model_copy(update={"id": f"{run_message_id(self.run)}-0"})
                return CompleteAnswer(chat_result(outcome))
            if outcome is not error:
                outcome.__cause__ = error
                error = outcome
        return error

    def _attach(self, request: ChatRequest) -> None:
        """Give a request what its source needs of the call; hooks and policies may have made a new one."""
        request.note = self._note
        listeners = self._observers
        request.emits_tokens = listeners is not None and listeners.tells_tokens

    def _note(self, **parts: Any) -> None:
        """Record what a source that broke off knew of its answer."""
        if not self.builder.is_finished:
            self.builder.note(**parts)

    # -- the end

    async def _conclude(self, request: ChatRequest) -> None:
        result = self._result()
        origin = self.origin
        # The author's own last step first. Then the cache, which stores what the model said and not what policies
        # make of it for this caller. The policies last; what a hook answers is theirs already.
        if origin is not HOOK:
            if origin is MODEL:
                if self.author.postprocesses:
                    result = await self.author.postprocess(self.model, request, result, self.run)
                if self._cache is not None:
                    is_generated = self.answer is not None and self.answer.is_generated
                    await self._cache.update(result.generations, needs_reason=not is_generated)
            if self.policies:
                result = await self._apply_after(request, result)
        message: Any = result.generations[0].message
        self.result, self.message = result, message
        # Before the callbacks: one of them may fail, and the answer is valid all the same.
        self.state = self.state.conclude
        try:
            if self.run.manager is not None and (waiting := self._dispatch_end(result)) is not None:
                await waiting
        except Exception as error:  # noqa: BLE001  raised after the answer was delivered
            self._end_error = error
        finally:
            if self._stream_call is not None:
                await self._end_stream_call(self._stream_call)

    def _dispatch_end(self, result: ChatResult) -> Awaitable[None] | None:
        output = LLMResult._trusted([[*result.generations]], self.llm_output)
        return self.run.dispatch_now("on_llm_end", (output,), {})

    async def _end_stream_call(self, stream_call: StreamCall) -> None:
        try:
            await stream_call.end(self.message)
        except Exception as error:  # noqa: BLE001  raised after the answer was delivered
            self._end_error = self._end_error or error

    def _result(self) -> ChatResult:
        if self.answer is None:
            folded = self.builder.result(last=self.is_quiet)
            message = AIMessage.from_fold(folded, self._version)
            if self._version == "v0":
                message.response_metadata.pop("output_version", None)
            return ChatResult(generations=[ChatGeneration._trusted(message)])
        result = self.answer.result
        if (self.origin is MODEL or self.origin is HOOK) and self._version != "v1":
            return result
        generations = [self._in_own_form(generation) for generation in result.generations]
        return ChatResult(generations=generations, llm_output=result.llm_output)

    def _in_own_form(self, generation: ChatGeneration) -> ChatGeneration:
        """Return an answer in the form of this call; it may have been cached in the other one."""
        message = generation.message
        is_v1 = message.response_metadata.get("output_version") == "v1"
        if not isinstance(message, AIMessage) or is_v1 is (self._version == "v1"):
            return generation
        folded = describe(message)
        folded.metadata.pop("output_version", None)
        return ChatGeneration._trusted(
            AIMessage.from_fold(folded, self._version), generation.generation_info
        )

    async def _apply_after(self, request: ChatRequest, result: ChatResult) -> ChatResult:
        generation = result.generations[0]
        message = new_message = cast("AIMessage", generation.message)
        for policy in reversed(self.policies):
            if type(policy).after is not Policy.after:
                new_message = await policy.after(request, new_message)
        if (
            request.notes and "lost" not in new_message.response_metadata
        ):  # providers may have set it
            new_message.response_metadata = {
                **new_message.response_metadata,
                "lost": list(request.notes),
            }
        if new_message is not message:
            if new_message.id is None:
                new_message = new_message.model_copy(update={"id": message.id})
            result.generations[0] = ChatGeneration._trusted(new_message, generation.generation_info)
        return result

    @property
    def _version(self) -> OutputVersion:
        return self.version or self.model._output_version

    @property
    def partial(self) -> AIMessage:
        """The message so far, marked incomplete."""
        if self.answer is not None and not self.builder.is_started:  # it came complete, and quiet
            self.builder.feed_all(self.answer)
        return AIMessage.from_fold(self.builder.result(partial=True), self._version)

    async def _fail(self, error: BaseException) -> None:
        is_closed = self.is_closing or isinstance(error, GeneratorExit)
        self.state = self.state.close if is_closed else self.state.fail
        # A reader that has left is no failure of the model, and listeners are told which of the two it was.
        if is_closed:
            error = StreamClosedError("the stream was closed before its end", **self.location)
        self.error = error
        self.message = self.partial
        # A budget that was used up before the call began has no partial answer to show.
        if self.message.content or not isinstance(error, BudgetExceeded):
            attach_partial(error, self.message)
        if isinstance(error, ModelError):
            error.attempts = max(self.attempts, 1)
            error.provider = error.provider or self.model._provider
            error.model = error.model or self.model._model_name
        if self.run.manager is not None:
            partial = self._partial_output(self.message)
            await self.run.dispatch("on_llm_error", error, response=partial)
        if self._stream_call is not None:
            end = (
                self._stream_call.end(self.message) if is_closed else self._stream_call.fail(error)
            )
            await end

    def _partial_output(self, message: AIMessage) -> LLMResult:
        return LLMResult(generations=[[ChatGeneration._trusted(message)]])

    def _own_run(self, run: Run) -> Run:
        """Return the run of one call: with the callbacks, tags and metadata of the model's constructor."""
        model = self.model
        if run.manager is None and not model.callbacks and not model.verbose:
            return run
        if not (model.callbacks or model.tags or model.metadata or model.verbose):
            return run.patched()
        return run.with_local(model.callbacks, model.tags, model.metadata, verbose=model.verbose)


def _same_chunks(show: Show | None, listeners: CallListeners) -> Show | None:
    """Return a function that shows the same chunks that handlers got, if they get tokens."""
    return show if show is None or not listeners.tells_tokens else lambda _: listeners.chunks
