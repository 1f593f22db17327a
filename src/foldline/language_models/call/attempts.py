"""Attempts: call the model until it answers, or fails with an error that may not be retried.

An attempt delivers from its first content on: until then its events are held back, so that an attempt that fails before
leaves no trace. The last batch, with `message-finish`, is delivered when the source has ended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol, cast

from foldline._run import Run
from foldline.exceptions import (
    MalformedStreamError,
    ModelError,
    StreamTruncatedError,
    StructuredOutputError,
)
from foldline.language_models.call.author import (
    AuthorHooks,
    author_events,
    generate_answer,
    run_message_id,
)
from foldline.language_models.call.batch import Batch, CompleteAnswer, chat_result, with_finish
from foldline.language_models.call.deadline import bounded_source, pause, wait_for_rate_limit
from foldline.language_models.call.message_bounds import (
    attach_partial,
    close_message,
    error_of,
    open_message,
)
from foldline.language_models.call.model import CallModel
from foldline.language_models.call.network_errors import read_author_error
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.call.retry import RetryPolicy
from foldline.language_models.call.retry_accounting import reset_event, usage_of_failure
from foldline.language_models.policies.base import Policy
from foldline.language_models.policies.checks import ChecksPolicy
from foldline.language_models.policies.guards import GuardsPolicy
from foldline.language_models.policies.received_message import ReceivedMessage
from foldline.language_models.policies.stack import find_policy
from foldline.language_models.policies.tool_names import ToolNamesPolicy
from foldline.language_models.policies.usage import UsagePolicy, time_left
from foldline.messages.usage import UsageMetadata, add_request_usage
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder

__all__ = ["attempts"]

CONTENT_EVENTS = frozenset(
    {"content-block-start", "content-block-delta", "content-block-finish", "message-finish"}
)
"""Events that a consumer cannot take back: after the first of these nothing is retried."""
KNOWN_EVENTS = CONTENT_EVENTS | {"message-start", "error"}


class AttemptCall(Protocol):
    """The parts of a `ChatCall` that its attempts read and write."""

    model: CallModel
    hooks: AuthorHooks
    run: Run
    stream: bool
    attempts: int
    spent: UsageMetadata | None
    answer: CompleteAnswer | None
    is_answered: bool
    is_invoke: bool
    response_metadata: dict[str, Any]
    policies: Sequence[Policy]
    event_policies: Sequence[Policy]

    @property
    def builder(self) -> MessageBuilder: ...
    @property
    def is_quiet(self) -> bool: ...
    @property
    def location(self) -> dict[str, Any]: ...
    @property
    def retry_policy(self) -> RetryPolicy: ...
    def begin_attempt(self) -> None: ...
    async def rescue(
        self, request: ChatRequest, error: Exception
    ) -> CompleteAnswer | Exception: ...


async def attempts(call: AttemptCall, request: ChatRequest) -> AsyncGenerator[Batch, None]:
    """Yield the answer to a request, from the first attempt that does not fail."""
    while True:
        attempt, policies = _Attempt(call, request), call.event_policies
        try:
            if attempt.is_single_message:
                # Awaited, not iterated: saves two microseconds of the thirty of a fake model's `invoke`.
                last = await attempt.generate()
                break
            source = await attempt.open_source()
            try:
                async for item in source:
                    batch = await attempt.receive(item) if policies else attempt.take(item)
                    if batch and attempt.last is None:
                        yield batch
                    if attempt.error is not None:
                        raise attempt.error
            finally:
                await source.aclose()
            last = await attempt.finish()
            break
        except Exception as error:  # noqa: BLE001  raised again unless there is another attempt
            failure = attempt.read_failure(error)
            attempt.record_failure(failure)
        finally:
            if attempt.usage is not None and not attempt.usage.is_settled:
                attempt.settle()
        outcome = await attempt.judge(failure)
        if attempt.final_batch:
            yield attempt.final_batch
        if not isinstance(outcome, ChatRequest):
            last = _answer(outcome)
            break
        request = outcome
        await _wait(call, failure)
    call.is_answered = True
    yield last


def _answer(outcome: CompleteAnswer | Exception) -> CompleteAnswer:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


class _Attempt:
    """One attempt: its events pass the policies, are folded, and are held back until the first content."""

    __slots__ = (
        "_builder",
        "_call",
        "_is_author_running",
        "_is_delivered",
        "_is_plain",
        "_pending",
        "_request",
        "error",
        "final_batch",
        "last",
        "usage",
    )  # fmt: skip

    def __init__(self, call: AttemptCall, request: ChatRequest) -> None:
        self._call = call
        self._request = request
        self.usage = find_policy(call.policies, UsagePolicy) if call.policies else None
        call.attempts += 1
        if call.attempts > 1:
            call.begin_attempt()
        self._is_plain = call.attempts == 1 and not (call.event_policies or call.response_metadata)
        """Whether the end of the message is passed on unchanged."""
        self._pending: list[Event] | None = []
        """Events before the first content; None after it."""
        self._is_author_running = False
        """Whether the author's code is running: an error before it, or of a policy, is not the author's."""
        self._is_delivered = False
        """Whether content was delivered."""
        self.last: Batch | None = None
        """The batch that finishes the message."""
        self.error: Exception | None = None
        """The error that ends the attempt, once the accepted events are delivered."""
        self.final_batch: Batch = ()
        """Events that are delivered after the attempt has failed."""

    @property
    def is_single_message(self) -> bool:
        """Whether the answer is one message of `_generate`, and there is no deadline."""
        call = self._call
        if not call.hooks.generates or self._request.stream or call.stream:
            return False
        return self.usage is None or not self.usage.has_limits

    async def generate(self) -> Batch:
        """Call the model for its answer as one message; return it."""
        call, request = self._call, self._request
        if self.usage is not None:  # there is one with every rate limiter
            await self._wait_for_share()
        self._is_author_running = True
        answer = await generate_answer(call.model, request, call.run)
        if not call.event_policies:
            return self.pass_on(answer)
        await self.receive(answer)
        return await self.finish()

    async def _wait_for_share(self) -> None:
        """Wait for the rate limit and for a share of the usage."""
        call, usage = self._call, self.usage
        limiter = call.model.rate_limiter
        if limiter is not None and not limiter.takes_reservations:
            await wait_for_rate_limit(limiter, call.run.io)
        if usage is not None:
            await usage.reserve(self._request)

    async def open_source(self) -> AsyncGenerator[Any, None]:
        """Call the model, once there is a share for it; return its answer as a stream."""
        call, request, usage = self._call, self._request, self.usage
        await self._wait_for_share()
        self._is_author_running = True
        as_one_batch = call.stream and not request.stream
        source = author_events(call.model, request, call.run, as_one_batch=as_one_batch)
        if usage is None or not usage.has_limits:
            return source
        return bounded_source(source, call.run.io, usage.in_use)

    # -- receiving

    async def receive(self, item: object) -> Batch:
        """Receive an event or a batch, through the policies; return what may be delivered."""
        batch = self._with_start(_batch(item))
        for policy in self._call.event_policies if self.last is None else ():
            if not batch:
                return ()
            try:
                batch = await policy.on_events(batch)
            except Exception:
                self._is_author_running = False
                raise
        return self.pass_on(batch) if batch else ()

    def take(self, item: Any) -> Batch:  # noqa: ANN401  an event or a batch: narrowed by its exact class, which checkers do not follow
        """Receive an event or a batch without policies; return what may be delivered."""
        kind = type(item)
        batch = item if kind is list else [item] if kind is dict else _batch(item)
        if self._pending is None and self._is_plain:  # the usual case: nothing to add
            return batch if self._builder.feed_all(batch) else self._take_folded(batch)
        batch = self._with_start(batch)
        return self.pass_on(batch) if batch else ()

    def _with_start(self, batch: Batch) -> Batch:
        """Begin the message if the source did not: with a start, and an id."""
        if not batch or type(batch) is CompleteAnswer or self._is_started or _is_start(batch[0]):
            return batch
        batch = [event for event in batch if _kind(event) in KNOWN_EVENTS]
        if not batch:
            return batch
        first, *others = batch
        start = open_message(first, run_message_id(self._call.run))
        return [start, *others] if first["event"] == "message-start" else [start, *batch]

    @property
    def _is_started(self) -> bool:
        received = find_policy(self._call.event_policies, ReceivedMessage)
        builder = self._call.builder if received is None else received.builder
        return builder.is_started

    def pass_on(self, batch: Batch) -> Batch:
        """Fold what the policies pass on; hold it back until there is content."""
        call = self._call
        if self.last is not None:
            late_kinds = [kind for event in batch if (kind := _kind(event)) in KNOWN_EVENTS]
            if late_kinds:
                raise MalformedStreamError(
                    f"{late_kinds[0]} after message-finish: the message was over"
                )
            return ()
        if not self._is_plain:
            metadata = dict(call.response_metadata)
            if call.attempts > 1:
                metadata["retries"] = call.attempts - 1
            batch = with_finish(batch, metadata, call.spent) if metadata else batch
        if type(batch) is CompleteAnswer:
            call.answer = batch
            if not call.is_quiet:
                call.builder.feed_all(batch)
            self.last = batch
            return batch
        call.builder.feed_all(batch)
        return self._take_folded(batch)

    def _take_folded(self, batch: Batch) -> Batch:
        """Return what may be delivered of a folded batch, as far as it was accepted; record its end, or its error."""
        builder = self._builder = self._call.builder
        if builder.fault is not None:
            self.error = builder.fault
        elif builder.error is not None:
            self.error = error_of(builder.error, **self._call.location)
        accepted = list(batch[: builder.accepted_count])
        if builder.is_finished and self.error is not None:
            # An event after the finish is an error, so the message has no end.
            accepted = _without_finish(accepted)
        if self._pending is not None:
            accepted = [*self._pending, *accepted]
            if not any(_kind(event) in CONTENT_EVENTS for event in accepted):
                self._pending = accepted
                return ()
            self._pending = None
        if builder.is_finished and self.error is None:
            self.last = accepted
            self._is_plain = False
        else:
            self._is_delivered = True
        return accepted

    async def finish(self) -> Batch:
        """Return the last batch; finish the message if the source did not."""
        last = self.last or await self._close()
        if self._request.others and self._call.event_policies:
            await self._receive_others()
        return last

    async def _receive_others(self) -> None:
        """Pass further answers to the same request through the policies that see them."""
        others = self._request.others
        for index, answer in enumerate(others):
            batch: Batch = CompleteAnswer(chat_result(answer))
            for policy in self._call.event_policies:
                if policy.sees_further_answers:
                    batch = await policy.on_events(batch)
            others[index] = cast("CompleteAnswer", batch).message

    async def _close(self) -> Batch:
        call = self._call
        received = find_policy(call.event_policies, ReceivedMessage)
        builder = call.builder if received is None else received.builder
        if not builder.is_started:
            raise StreamTruncatedError(
                "the model gave no event at all", is_retryable=False, **call.location
            )
        closing = close_message(builder)
        batch = await self.receive(closing) if call.event_policies else self.take(closing)
        if self.error is not None:
            raise self.error
        return self.last or batch

    # -- failures

    def read_failure(self, error: Exception) -> Exception:
        """Return a network error of the author's code as an error of a model call; any other unchanged."""
        return read_author_error(error) if self._is_author_running else error

    def record_failure(self, error: Exception) -> None:
        """Count the usage of a failed attempt; attach to the error what guards held back."""
        guards = find_policy(self._call.policies, GuardsPolicy)
        if guards is not None and guards.holds_back:
            received = find_policy(self._call.event_policies, ReceivedMessage)
            if received is not None:
                attach_partial(error, received.partial)
        if isinstance(error, ModelError):
            self.settle(usage_of_failure(error, self._call.builder))

    def settle(self, usage: UsageMetadata | None = None) -> None:
        """Settle the usage of an attempt, as far as it is known; one that finished is settled already."""
        if self.usage is not None:
            self.usage.settle(usage or self._call.builder.usage)

    async def judge(self, error: Exception) -> ChatRequest | CompleteAnswer | Exception:
        """Return what follows a failure: another request, an answer in place of the error, or the error to raise."""
        call, is_delivered = self._call, self._is_delivered
        if self.usage is not None:
            await self.usage.flush()
        if self._may_be_repeated(error, is_delivered=is_delivered):
            if is_delivered:
                self.final_batch = [reset_event(call.builder.id, call.attempts, error)]
            return self._next_request(error)
        if isinstance(error, StructuredOutputError):
            error.usage = add_request_usage(call.spent, error.usage)
        outcome = await call.rescue(self._request, error)
        if isinstance(outcome, CompleteAnswer) and is_delivered and not call.is_invoke:
            outcome = error
        if isinstance(outcome, Exception):
            self.final_batch = self._undelivered_events(error)
            return outcome
        if is_delivered:
            self.final_batch = [reset_event(call.builder.id, call.attempts, error)]
        call.answer = outcome
        call.begin_attempt()
        if not call.is_quiet:
            call.builder.feed_all(outcome)
        return outcome

    def _undelivered_events(self, error: Exception) -> Batch:
        """Return what was received and not delivered: content that came with the finish, or a bare start."""
        if self.last is not None:
            return () if type(self.last) is CompleteAnswer else _without_finish(self.last)
        return self._pending or () if isinstance(error, ModelError) else ()

    def _may_be_repeated(self, error: Exception, *, is_delivered: bool) -> bool:
        call, policy = self._call, self._call.retry_policy
        may_reset = policy.on_partial == "reset"
        checks = find_policy(call.policies, ChecksPolicy)
        if checks is not None and checks.is_rejection(error):
            may_reset = may_reset or checks.resets or call.is_invoke
            if policy.decide(error) is False:
                return False
            if checks.shares_retries and call.attempts > policy.max_retries:
                return False
            return bool(getattr(error, "is_retryable", False)) and (may_reset or not is_delivered)
        if is_delivered and not may_reset:
            return False
        remaining_seconds = time_left()
        if (
            remaining_seconds is not None
            and policy.delay(call.attempts, error) >= remaining_seconds
        ):
            return False  # there is not enough time to wait
        return policy.allows(error, call.attempts)

    def _next_request(self, error: Exception) -> ChatRequest:
        """Count the usage; return the next request, with what was wrong with a rejected answer."""
        call, request = self._call, self._request
        if (usage := usage_of_failure(error, call.builder)) is not None:
            call.spent = add_request_usage(call.spent, usage)
        checks = find_policy(call.policies, ChecksPolicy)
        if checks is None or not isinstance(error, StructuredOutputError):
            return request
        names, complaint = find_policy(call.policies, ToolNamesPolicy), checks.complaint(error)
        messages = complaint if names is None else names.encode(complaint)
        return request.replace(messages=[*request.messages, *messages])


async def _wait(call: AttemptCall, error: Exception) -> None:
    """Dispatch the retry, and wait; a rejected answer is retried at once."""
    is_rejection = isinstance(error, StructuredOutputError)
    delay = 0.0 if is_rejection else call.retry_policy.delay(call.attempts, error)
    await call.run.dispatch("on_retry", {"attempt": call.attempts, "error": error, "delay": delay})
    if delay:
        await pause(delay, call.run.io)


def _batch(item: Any) -> Batch:  # noqa: ANN401  an event or a batch: narrowed by its exact class, which checkers do not follow
    """Return a batch for an item of a source, which is a batch or a single event."""
    return item if isinstance(item, list | tuple | CompleteAnswer) else [item]


def _without_finish(batch: Batch) -> list[Event]:
    return [event for event in batch if _kind(event) != "message-finish"]


def _is_start(event: Event) -> bool:
    """Return whether an event is a complete start of a message, with an id."""
    return _kind(event) == "message-start" and bool(event.get("id"))


def _kind(event: object) -> str:
    """Return the kind of an event; raise for anything else."""
    if type(event) is not dict and not isinstance(event, Mapping):
        raise MalformedStreamError(f"an event is a dict, not {type(event).__name__}")
    kind = event.get("event")
    if not isinstance(kind, str):
        raise MalformedStreamError(f"an event has its kind in `event`, not {kind!r:.80}")
    return kind
