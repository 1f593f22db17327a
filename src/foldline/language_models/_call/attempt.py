"""Attempts: call the model until it answers, or fails with an error that may not be retried.

An attempt delivers from its first content on: until then its events are held back, so that an attempt that fails before
leaves no trace. The last batch, with `message-finish`, is delivered when the source has ended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol, cast

from foldline._run import Run
from foldline._streams.answer import Batch, CompleteAnswer, chat_result, with_finish
from foldline._streams.bounds import (
    attach_partial,
    close_message,
    error_of,
    open_message,
    reset_event,
    usage_of_failure,
)
from foldline._streams.state import (
    ASKING,
    DELIVERING,
    FINISHED,
    MESSAGE,
    RECEIVING,
    REJECTED,
    RESERVING,
    WAITING,
    AttemptState,
    CallState,
    View,
)
from foldline.exceptions import (
    MalformedStreamError,
    ModelError,
    StreamTruncatedError,
    StructuredOutputError,
)
from foldline.language_models._call.author import Author, run_message_id
from foldline.language_models._call.deadline import bounded_source, pause
from foldline.language_models._call.errors import read_author_error
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.policy import (
    Decision,
    Failure,
    FoldedAttempt,
    Policy,
    Reservation,
)
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.messages.usage import UsageMetadata, add_request_usage
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder

__all__ = ["attempts"]

CONTENT_EVENTS = frozenset(
    {"content-block-start", "content-block-delta", "content-block-finish", "message-finish"}
)
"""Events that a consumer cannot take back by itself: a retry after the first of these sends a reset."""
KNOWN_EVENTS = CONTENT_EVENTS | {"message-start", "error"}


class AttemptCall(Protocol):
    """The parts of a `ChatCall` that its attempts use; they change it by its methods, and its state."""

    state: CallState
    attempts: int

    @property
    def model(self) -> CallModel: ...
    @property
    def author(self) -> Author: ...
    @property
    def run(self) -> Run: ...
    @property
    def stream(self) -> bool: ...
    @property
    def view(self) -> View: ...
    @property
    def spent(self) -> UsageMetadata | None: ...
    @property
    def response_metadata(self) -> dict[str, Any]: ...
    @property
    def policies(self) -> Sequence[Policy]: ...
    @property
    def event_policies(self) -> Sequence[Policy]: ...
    @property
    def reservations(self) -> Sequence[Reservation]: ...
    @property
    def received(self) -> FoldedAttempt | None: ...
    @property
    def builder(self) -> MessageBuilder: ...
    @property
    def location(self) -> dict[str, Any]: ...
    @property
    def retry_policy(self) -> RetryPolicy: ...
    def discard_attempt(self) -> None: ...
    def take_answer(self, answer: CompleteAnswer) -> None: ...
    def add_spent(self, usage: UsageMetadata | None) -> None: ...
    async def rescue(
        self, request: ChatRequest, error: Exception
    ) -> CompleteAnswer | Exception: ...


async def attempts(call: AttemptCall, request: ChatRequest) -> AsyncGenerator[Batch, None]:
    """Yield the answer to a request, from the first attempt that does not fail."""
    call.state = call.state.ask
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
                    # The last batch is kept until the source has ended: what follows it may still be an error.
                    if batch and attempt.state is not FINISHED:
                        yield batch
                    # After the yield: what was accepted before the error belongs to the reader.
                    if attempt.error is not None:
                        raise attempt.error
            finally:
                # Also when the reader has left: the connection is free now, and not when it is collected.
                await source.aclose()
            last = await attempt.finish()
            break
        except Exception as error:  # noqa: BLE001  raised again unless there is another attempt
            failure = attempt.read_failure(error)
            attempt.record_failure(failure)
        finally:
            if attempt.reservations:
                attempt.release()
        # Not inside `except`: the attempt has returned its share by now, and what follows may wait for one.
        outcome = await attempt.follow_up(failure)
        if attempt.final_batch:
            yield attempt.final_batch
        if not isinstance(outcome, Decision):
            last = _answer(outcome)
            break
        request = attempt.next_request(failure, outcome)
        call.state = call.state.retry
        await _wait(call, failure, outcome.delay)
    call.state = call.state.answer
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
        "_is_plain",
        "_pending",
        "_request",
        "error",
        "final_batch",
        "last",
        "reservations",
        "state",
    )  # fmt: skip

    def __init__(self, call: AttemptCall, request: ChatRequest) -> None:
        self._call = call
        self._request = request
        self.state: AttemptState = RESERVING
        self.reservations = call.reservations
        call.attempts += 1
        if call.attempts > 1:
            call.discard_attempt()
        # A later attempt adds to the finish how many there were, and what they have spent.
        self._is_plain = call.attempts == 1 and not (call.event_policies or call.response_metadata)
        """Whether the end of the message is passed on unchanged."""
        self._pending: Batch = ()
        """Events before the first content."""
        self.last: Batch = ()
        """The batch that finishes the message."""
        self.error: Exception | None = None
        """The error that ends the attempt, once the accepted events are delivered."""
        self.final_batch: Batch = ()
        """Events that are delivered after the attempt has failed."""

    @property
    def is_single_message(self) -> bool:
        """Whether the answer is one message of `_generate`, and there is no deadline."""
        call = self._call
        if not call.author.generates or self._request.stream or call.stream:
            return False
        # A deadline must be able to break the call off, and what is iterated can be broken off.
        return not self.reservations or not any(
            reservation.has_deadline for reservation in self.reservations
        )

    async def generate(self) -> Batch:
        """Call the model for its answer as one message; return it."""
        call, request = self._call, self._request
        for reservation in self.reservations:
            await reservation.reserve(request)
        # Only from here on an error is the author's: a refused reservation is no failure of the model.
        self.state = WAITING
        answer = await call.author.generate(call.model, request, call.run)
        if not call.event_policies:
            return self.pass_on(answer)
        await self.receive(answer)
        return await self.finish()

    async def open_source(self) -> AsyncGenerator[Any, None]:
        """Call the model, once there is a share for it; return its answer as a stream."""
        call, request = self._call, self._request
        for reservation in self.reservations:
            await reservation.reserve(request)
        self.state = WAITING
        is_complete = call.stream and not request.stream
        events = call.author.complete_events if is_complete else call.author.events
        source = events(call.model, request, call.run)
        for reservation in self.reservations:
            if reservation.has_deadline:
                source = bounded_source(source, call.run.io, reservation.in_use)
        return source

    # -- receiving

    async def receive(self, item: object) -> Batch:
        """Receive an event or a batch, through the policies; return what may be delivered."""
        batch = self._with_start(_batch(item))
        # After the finish no policy is asked: whatever comes then is an error, in `pass_on`.
        for policy in self._call.event_policies if self.state is not FINISHED else ():
            if not batch:
                return ()
            try:
                # What a policy raises is not read as an error of the network: it is no failure of the author.
                batch = await policy.on_events(batch)
            except Exception:
                self.state = REJECTED
                raise
        return self.pass_on(batch) if batch else ()

    def take(self, item: Any) -> Batch:  # noqa: ANN401  an event or a batch: narrowed by its exact class, which checkers do not follow
        """Receive an event or a batch without policies; return what may be delivered."""
        kind = type(item)
        batch = item if kind is list else [item] if kind is dict else _batch(item)
        if self.state is DELIVERING and self._is_plain:  # the usual case: nothing to add
            return batch if self._builder.feed_all(batch) else self._take_folded(batch)
        batch = self._with_start(batch)
        return self.pass_on(batch) if batch else ()

    def _with_start(self, batch: Batch) -> Batch:
        """Begin the message if the source did not: with a start, and an id."""
        if not batch or type(batch) is CompleteAnswer or self._is_started or _is_start(batch[0]):
            return batch
        # Events of unknown kinds, of a later protocol, begin no message.
        batch = [event for event in batch if _kind(event) in KNOWN_EVENTS]
        if not batch:
            return batch
        first, *others = batch
        start = open_message(first, run_message_id(self._call.run))
        return [start, *others] if first["event"] == "message-start" else [start, *batch]

    @property
    def _is_started(self) -> bool:
        return self._received_builder.is_started

    @property
    def _received_builder(self) -> MessageBuilder:
        """The fold of what the model sent, of which policies may hold some back."""
        received = self._call.received
        return self._call.builder if received is None else received.builder

    def pass_on(self, batch: Batch) -> Batch:
        """Fold what the policies pass on; hold it back until there is content."""
        call = self._call
        if self.state is FINISHED:
            # Unknown kinds may follow; a known one means that the finish was not the end.
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
            call.take_answer(batch)
            self.state = FINISHED
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
        # The builder stops at the first event that breaks the grammar: those before it are good.
        accepted = list(batch[: builder.accepted_count])
        if builder.is_finished and self.error is not None:
            # An event after the finish is an error, so the message has no end.
            accepted = _without_finish(accepted)
        # Held back until there is content: an attempt that fails before it leaves no trace.
        if self.state is WAITING:
            accepted = [*self._pending, *accepted]
            if not any(_kind(event) in CONTENT_EVENTS for event in accepted):
                self._pending = accepted
                return ()
        if builder.is_finished and self.error is None:
            self.state = FINISHED
            self.last = accepted
        elif self.state is WAITING:
            self.state = DELIVERING
            # From here on a reader has something that a retry must take back.
            self._call.state = self._call.state.content
        return accepted

    async def finish(self) -> Batch:
        """Return the last batch; finish the message if the source did not."""
        last = self.last or await self._close()
        if self._request.others and self._call.event_policies:
            try:
                await self._receive_others()
            except Exception:
                self.state = REJECTED
                raise
        return last

    async def _receive_others(self) -> None:
        """Pass further answers to the same request through the policies that see them."""
        # They have no events: only the policies that ask for them see them, as complete answers.
        others = self._request.others
        for index, answer in enumerate(others):
            batch: Batch = CompleteAnswer(chat_result(answer))
            for policy in self._call.event_policies:
                if policy.sees_further_answers:
                    batch = await policy.on_events(batch)
            others[index] = cast("CompleteAnswer", batch).message

    async def _close(self) -> Batch:
        call, builder = self._call, self._received_builder
        if not builder.is_started:
            # Not retried: a broken connection raises, and a source that just ends would do so again.
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
        is_author = self.state is not RESERVING and self.state is not REJECTED
        return read_author_error(error) if is_author else error

    def record_failure(self, error: Exception) -> None:
        """Count the usage of a failed attempt; attach to the error what policies held back."""
        call = self._call
        received = call.received
        if received is not None and any(policy.holds_back for policy in call.event_policies):
            attach_partial(error, received.partial)
        if isinstance(error, ModelError):
            if received is not None:
                received.failure = error
            # What is known of the usage counts, although the answer is thrown away: it is paid for.
            usage = usage_of_failure(error, call.builder)
            _settle(self.reservations, usage or call.builder.usage)

    def release(self) -> None:
        """Settle what this attempt still holds: it broke off, or its reader has gone."""
        held = [each for each in self.reservations if not each.is_settled]
        if held:
            _settle(held, self._call.builder.usage)

    async def follow_up(self, error: Exception) -> Decision | CompleteAnswer | Exception:
        """Return what follows a failure: another attempt, an answer in place of the error, or the error to raise."""
        call, is_delivered = self._call, self._call.state is RECEIVING
        # What the attempt has used is written before anybody decides to spend more.
        for reservation in self.reservations:
            await reservation.flush()
        decision = self._judge(error, is_delivered=is_delivered)
        if decision.repeats:
            if is_delivered:
                self.final_batch = [reset_event(call.builder.id, call.attempts, error)]
            return decision
        if isinstance(error, StructuredOutputError):
            # There will be no message that says what the rejected answers have cost.
            error.usage = add_request_usage(call.spent, error.usage)
        outcome = await call.rescue(self._request, error)
        # A reader who has content of one answer cannot get another in its place; who waits for the message can.
        if isinstance(outcome, CompleteAnswer) and is_delivered and call.view is not MESSAGE:
            outcome = error
        if isinstance(outcome, Exception):
            self.final_batch = self._undelivered_events(error)
            return outcome
        if is_delivered:
            self.final_batch = [reset_event(call.builder.id, call.attempts, error)]
        call.discard_attempt()
        call.take_answer(outcome)
        return outcome

    def _judge(self, error: Exception, *, is_delivered: bool) -> Decision:
        """Ask the policies, from the caller's side to the model's, and then the retry policy."""
        call, retry = self._call, self._call.retry_policy
        # A rejected answer is no sign of overload, so nothing is gained by waiting.
        failure = Failure(
            error,
            call.attempts,
            is_delivered,
            call.view is MESSAGE,
            retry,
            0.0 if isinstance(error, StructuredOutputError) else retry.delay(call.attempts, error),
        )
        # The caller's side first: the policies of a program overrule those of foldline.
        for policy in call.policies:
            try:
                decision = policy.judge(failure)
            except Exception as problem:
                raise problem from error
            if decision is not None:
                return decision
        return failure.decide()

    def _undelivered_events(self, error: Exception) -> Batch:
        """Return what was received and not delivered: content that came with the finish, or a bare start."""
        if self.last:
            return () if type(self.last) is CompleteAnswer else _without_finish(self.last)
        is_held = self._call.state is ASKING and isinstance(error, ModelError)
        return self._pending if is_held else ()

    def next_request(self, error: Exception, decision: Decision) -> ChatRequest:
        """Count the usage; return the next request, with the messages that the decision adds."""
        call, request, messages = self._call, self._request, decision.messages
        call.add_spent(usage_of_failure(error, call.builder))
        if not messages:
            return request
        # They are written in the caller's terms, such as the names of its tools; the model has others.
        for policy in call.policies:
            messages = policy.encode(messages)
        return request.replace(messages=[*request.messages, *messages])


def _settle(reservations: Sequence[Reservation], usage: Mapping[str, Any] | None) -> None:
    """Settle all, also if one of them raises."""
    # A store that fails for one of them must not keep the shares of the others.
    problem: Exception | None = None
    for reservation in reservations:
        try:
            reservation.settle(usage)
        except Exception as error:  # noqa: BLE001  raised below
            problem = problem or error
    if problem is not None:
        raise problem


async def _wait(call: AttemptCall, error: Exception, delay: float) -> None:
    """Dispatch the retry, and wait; a rejected answer is retried at once."""
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
