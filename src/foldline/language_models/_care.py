"""What a managed call adds to a turn, in one object: `Care`. A plain call has none.

A turn asks it at four places: `prepare` before anything is sent, `speak` or `generate` for one attempt, `retries` after
a failed one, `conclude` at the end. It knows the phases of docs/managed-models.md; the turn knows when they happen.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import TYPE_CHECKING, Any, cast

from foldline.exceptions import (
    BudgetExceeded,
    ModelError,
    OutputRejectedError,
    StructuredOutputError,
)
from foldline.language_models._again import usage_of_failure
from foldline.language_models._closing import close_message
from foldline.language_models._deadline import END, BoundedSource, within
from foldline.language_models._message_files import deliver_files, resolve_messages
from foldline.language_models._plan import (
    CARE_OPTIONS,
    Plan,
    accepted,
    instructed,
    marked_for_cache,
    overlay,
    screened,
    screened_call,
)
from foldline.language_models._whole import generate
from foldline.language_models.checks import OutputCheck, Verdict, asked_again
from foldline.language_models.count import fit_window
from foldline.language_models.guards import run_guards
from foldline.language_models.hooks import ModelHooks
from foldline.language_models.profile import ModelProfile
from foldline.language_models.request import ChatRequest
from foldline.language_models.retry import RetryPolicy
from foldline.language_models.tool_names import CLASS, LENGTH, NameCodec, names_of_call
from foldline.language_models.usage import Spending, current_usage, time_left
from foldline.messages import AIMessage, BaseMessage
from foldline.outputs import ChatGeneration, ChatResult
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.replay import message_to_events

if TYPE_CHECKING:
    from foldline.language_models._turn import Turn

__all__ = ["Care", "care_of"]


def care_of(turn: Turn, request: ChatRequest, *, is_plain: bool) -> Care | None:
    """Give the care a call needs, its options taken out of the request; None for a plain call.

    `is_plain` says that neither the model, its messages nor a usage scope ask for any.
    """
    model = turn.model
    settings = model._settings
    late = turn.run.given.get("configurable") or {}
    overlay(request, settings.get("model_options") or {}, late)
    options = request.options
    taken = {key: options.pop(key) for key in CARE_OPTIONS & options.keys()}
    if is_plain and not taken and "reasoning_effort" not in options:
        return None
    profile = model.profile
    plan = {key: value for key, value in {**settings, **taken}.items() if key in CARE_OPTIONS}
    plan["hooks"] = ModelHooks.of(plan.get("hooks"))
    request.output_file_type = plan.get("output_file_type")
    return Care(turn, Plan(**plan), profile)


class Care:
    """The managed side of one call."""

    __slots__ = (
        "_codec", "_failures", "_judged", "_told", "_turn", "is_watching", "plan", "policy", "profile", "replacement",
        "rescue",
    )  # fmt: skip

    def __init__(self, turn: Turn, plan: Plan, profile: ModelProfile | None) -> None:
        self._turn = turn
        self.plan = plan
        self.profile: ModelProfile = profile or {}
        given = plan.retry_on_error
        self.policy = turn.model._retry_policy if given is None else RetryPolicy.of(given)
        self.replacement: AIMessage | None = None
        """What a guard gave instead of an answer whose pieces were out."""
        self.rescue: AIMessage | None = None
        """What the hook gave instead of an error: nobody's answer, so neither kept nor seen by `after`."""
        self.is_watching = False
        self._codec: NameCodec | None = None
        self._told: dict[str, Any] = {}
        """What the answer's response_metadata says of this call."""
        self._judged: AIMessage | None = None
        self._failures = 0

    @property
    def renames(self) -> Mapping[str, str]:
        """The tools whose names the provider cannot take -> the names they are sent under."""
        return self._codec.changes if self._codec is not None else {}

    # -- before anything is sent

    async def prepare(self, request: ChatRequest) -> ChatRequest:
        """Resolve options, look at limits, fetch files, encode names; nothing the caller gave is changed."""
        plan, model, io = self.plan, self._turn.model, self._turn.run.io
        if plan.hooks is not None:
            request = await plan.hooks.run_before(request, io)
        if plan.instructions:
            request = request.replace(messages=instructed(request.messages, plan.instructions))
        if request.options or request.stop:
            request, told = accepted(request, self.profile, self._where(), plan.on_unsupported)
            self._told |= told
        if any(isinstance(message.content, list) for message in request.messages):
            takes_urls = self.profile.get("image_url_inputs") is not False
            messages = await resolve_messages(
                request.messages, plan.file_resolver, io, takes_urls=takes_urls
            )
            request = request.replace(messages=messages)
        limit = plan.max_input_tokens or self.profile.get("max_input_tokens")
        if limit is not None:
            request = fit_window(model, request, limit, plan.on_overflow)
        request = marked_for_cache(self._encoded(request), plan.prompt_cache)
        watched = plan.checks or plan.guards or self._codec is not None or self._told
        self.is_watching = bool(watched) or current_usage() is not None
        return request

    def _encoded(self, request: ChatRequest) -> ChatRequest:
        pattern = self.profile.get("tool_name_pattern") or self._turn.model._tool_name_pattern
        if pattern is None:
            return request
        names = names_of_call(request.messages, request.options)
        if not names:
            return request
        codec = NameCodec(names, pattern or CLASS, self.profile.get("tool_name_length") or LENGTH)
        if not codec.changes:
            return request
        self._codec = codec
        messages = codec.encode_messages(request.messages)
        return request.replace(messages=messages, options=codec.encode_options(request.options))

    def _where(self) -> str:
        model = self._turn.model
        return (
            ":".join(part for part in (model._provider, model._model_name) if part)
            or type(model).__name__
        )

    # -- one attempt

    async def speak(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """Give one attempt's events: under the deadline, names decoded, checked and guarded before the end."""
        spending = await self._reserved(request)
        builder = MessageBuilder(self._turn.model._fold_limits)
        held: list[Event] | None = [] if self.plan.holds_back else None
        usage: Any = None
        try:
            async with aclosing(self._said(request, builder, spending)) as events:
                async for event in events:
                    if event["event"] == "message-finish":
                        async for last in self._finished(event, builder, held, spending):
                            yield last
                    elif held is None:
                        yield event
                    else:
                        held.append(event)
            for place, other in enumerate(request.others):
                said = cast("AIMessage", self._decoded(other))
                request.others[place] = await run_guards(self.plan.guards, said, self._turn.run.io)
        except ModelError as error:
            usage = usage_of_failure(error, builder)
            if held and error.partial is None:
                error.partial = AIMessage.from_fold(builder.result(partial=True), "v0")
            raise
        finally:
            if spending is not None:
                # What was heard of an answer that broke off is noted in the turn.
                spending.settle(builder.usage or usage or self._turn.builder.usage)

    async def _said(
        self, request: ChatRequest, builder: MessageBuilder, spending: Spending | None
    ) -> AsyncGenerator[Event, None]:
        """Give what the model says, folded, with an end where its author left it out."""
        async with aclosing(BoundedSource(self._turn.source(request), self._turn.run.io)) as source:
            while True:
                with _held(spending):
                    said = await source.next()
                if said is END:
                    break
                event = self._received(said)
                builder.feed(event)
                yield event
        if builder.is_started and not builder.is_finished and builder.error is None:
            for event in close_message(builder):
                builder.feed(event)
                yield event

    def _received(self, event: Any) -> Event:
        if self._codec is not None:
            event = self._codec.decode_event(event)
        if event["event"] == "content-block-finish" and self.plan.checks:
            content = event["content"]
            is_call = isinstance(content, Mapping) and content.get("type") == "tool_call"
            broken = screened_call(self.plan.checks, content) if is_call else None
            event = event if broken is None else {**event, "content": broken}
        return cast("Event", event)

    async def _finished(
        self,
        event: Any,
        builder: MessageBuilder,
        held: list[Event] | None,
        spending: Spending | None,
    ) -> AsyncGenerator[Event, None]:
        message = AIMessage.from_fold(builder.result(), "v0")
        if spending is not None:
            self._settle(spending, message)
        told = self._judge(message)
        passed = await run_guards(self.plan.guards, message, self._turn.run.io)
        if passed is not message and held is None:
            self.replacement = passed
        if passed is not message and held is not None:
            passed.response_metadata = {**passed.response_metadata, **told}
            for one in message_to_events(passed):
                yield one
            return
        for one in held or ():
            yield one
        if told:
            event = {**event, "metadata": {**(event.get("metadata") or {}), **told}}
        yield event

    async def generate(self, request: ChatRequest) -> ChatResult:
        """Give one attempt's whole answer: under the deadline, names decoded, checked and guarded."""
        spending = await self._reserved(request)
        run, usage = self._turn.run, None
        result: ChatResult
        try:
            with _held(spending):
                result = await within(generate(self._turn.model, request, run), run.io)
            said = [cast("AIMessage", self._decoded(one.message)) for one in result.generations]
            message = said[0]
            usage = message.usage_metadata
            if spending is not None:
                self._settle(spending, message)
            told = self._judge(message)
            passed = [await run_guards(self.plan.guards, one, run.io) for one in said]
            passed[0].response_metadata = {**passed[0].response_metadata, **told}
            result.generations = list(map(_saying, result.generations, passed))
        except ModelError as error:
            usage = usage or usage_of_failure(error, self._turn.builder)
            raise
        finally:
            if spending is not None:
                spending.settle(usage)
        return result

    def _decoded(self, message: BaseMessage) -> BaseMessage:
        if self._codec is not None:
            message = self._codec.decode_message(message)
        return screened(message, self.plan.checks) if isinstance(message, AIMessage) else message

    # -- time and money

    async def _reserved(self, request: ChatRequest) -> Spending | None:
        scope = current_usage()
        if scope is None:
            return None
        model = self._turn.model
        counted = model.count_tokens(request.messages, request.tools)
        most = request.options.get("max_tokens") or getattr(model, "max_tokens", None)
        most = most if isinstance(most, int) else None
        spending = Spending(scope, counted.n, most, self.profile.get("prices"), self._where())
        await spending.reserve(self._turn.run.io)
        return spending

    def _settle(self, spending: Spending, message: AIMessage) -> None:
        spending.settle(message.usage_metadata)
        try:
            spending.check()
        except BudgetExceeded as error:
            error.partial = message
            raise

    # -- judging

    def _judge(self, message: AIMessage) -> dict[str, Any]:
        """Raise if the answer cannot be used; else give what its metadata should say."""
        told = dict(self._told)
        repairs: list[str] = []
        for check in self.plan.checks:
            verdict = check.judge(message)
            repairs += verdict.repairs
            if verdict.issues:
                told |= self._refused(check, message, verdict)
        if repairs:
            told["repairs"] = repairs
        return told

    def _refused(self, check: OutputCheck, message: AIMessage, verdict: Verdict) -> dict[str, Any]:
        self._failures += 1
        self._judged = message
        is_last = self._failures > check.max_retries
        if is_last and check.gives_up_quietly:
            return {"issues": verdict.issues}
        said = "; ".join(verdict.issues[:5])
        error = StructuredOutputError(
            f"the answer cannot be used: {said}"
            + (f" (asked {self._failures} times)" if is_last else ""),
            is_retryable=not is_last,
        )
        error.raw, error.issues, error.usage = message, verdict.issues, message.usage_metadata
        error.partial = message
        raise error

    def retries(self, error: Exception, attempts: int) -> bool:
        """Whether a failed attempt may be followed by another: by its check's count, or by the policy."""
        if (
            isinstance(error, StructuredOutputError)
            and error.raw is self._judged
            and self._judged is not None
        ):
            return error.is_retryable
        left = time_left()
        if left is not None and self.policy.delay(attempts, error) >= left:
            return False  # there is no time left to wait
        return self.policy.allows(error, attempts)

    def delay(self, error: Exception, attempts: int) -> float:
        """Give the seconds before the next attempt; a model that is told its mistake is asked at once."""
        return (
            0.0 if isinstance(error, StructuredOutputError) else self.policy.delay(attempts, error)
        )

    def may_reset(self, error: Exception) -> bool:
        """Whether an attempt may be repeated although its content was delivered."""
        if self.policy.on_partial == "reset":
            return True
        resets = any(getattr(check, "resets", False) for check in self.plan.checks)
        return isinstance(error, StructuredOutputError) and (resets or self._turn.is_answer)

    def next_request(self, request: ChatRequest, error: Exception) -> ChatRequest:
        """Give the request of the next attempt: after a refused answer with what was wrong with it."""
        if not isinstance(error, StructuredOutputError) or self._judged is None:
            return request
        messages = asked_again([], self._judged, error.issues)
        self._judged = None
        if self._codec is not None:
            messages = self._codec.encode_messages(messages)
        return request.replace(messages=[*request.messages, *messages])

    # -- the end

    async def approved(self, kept: list[ChatGeneration]) -> list[ChatGeneration] | None:
        """Let the guards see an answer that was kept, maybe for others; one they refuse counts as not kept."""
        if not self.plan.guards:
            return kept
        io, passed = self._turn.run.io, []
        try:
            for one in kept:
                message = cast("AIMessage", one.message)
                passed.append(await run_guards(self.plan.guards, message, io))
        except OutputRejectedError:
            return None
        return [ChatGeneration._trusted(message) for message in passed]

    async def conclude(self, request: ChatRequest, result: ChatResult) -> ChatResult:
        """Deliver files and let the hook see the answer."""
        if self.rescue is not None:
            return result
        plan, io = self.plan, self._turn.run.io
        first = result.generations[0]
        message = cast("AIMessage", first.message)
        changed = self.replacement or message
        if request.notes and "lost" not in changed.response_metadata:  # providers say it themselves
            changed.response_metadata = {**changed.response_metadata, "lost": list(request.notes)}
        if request.output_file_type is not None:
            changed = await deliver_files(
                changed, request.output_file_type, plan.output_dir, plan.file_resolver, io
            )
        if plan.hooks is not None:
            changed = await plan.hooks.run_after(request, changed, io)
        if changed is not message:
            if changed.id is None:
                changed = changed.model_copy(update={"id": message.id})
            result.generations[0] = _saying(first, changed)
        return result

    async def recover(self, request: ChatRequest, error: Exception) -> Exception | AIMessage:
        """Let the hook see the error, and give what is to be raised or returned."""
        if self.plan.hooks is None:
            return error
        outcome = await self.plan.hooks.run_on_error(request, error, self._turn.run.io)
        if isinstance(outcome, AIMessage):
            self.rescue = outcome
        return outcome


def _saying(generation: ChatGeneration, message: AIMessage) -> ChatGeneration:
    """Give a generation with another message, and so with another text."""
    if message is generation.message:
        return generation
    return ChatGeneration._trusted(message, generation.generation_info)


def _held(spending: Spending | None) -> AbstractContextManager[None]:
    return nullcontext() if spending is None else spending.held()
