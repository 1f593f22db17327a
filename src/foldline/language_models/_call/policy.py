"""`Policy`: one feature that a managed call adds to a model call.

The policies of a call are an onion, outermost first (`stack.POLICIES`). A request goes in through it: `before` and
`encode` run down the list, and so does `answer`, of which the first counts. An answer or an error comes out:
`on_events`, `approve`, `after` and `on_error` run up. `judge` runs down, and the first decision counts. The machine
(`call`, `attempt`) knows this interface and no policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol

from foldline._lazy import publish
from foldline._run import Run
from foldline._streams.answer import Batch, CompleteAnswer
from foldline._streams.state import View
from foldline.language_models._call.author import Author
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.language_models._call.settings import CallSettings
from foldline.language_models.profile import ModelProfile
from foldline.messages import AIMessage, BaseMessage
from foldline.messages.usage import UsageMetadata
from foldline.protocol.fold import MessageBuilder

__all__ = [
    "STOP",
    "CallContext",
    "Decision",
    "Failure",
    "FoldedAttempt",
    "Policy",
    "Reservation",
    "ends_message",
]


class FoldedAttempt(Protocol):
    """The model's message in this attempt, before any policy holds it back: see `received_message`."""

    failure: Exception | None
    """The error of the call with which it broke off; None if its reader has gone."""

    @property
    def builder(self) -> MessageBuilder: ...
    @property
    def message(self) -> AIMessage: ...
    @property
    def partial(self) -> AIMessage: ...
    @property
    def usage(self) -> UsageMetadata | None: ...
    @property
    def blocks(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def has_begun(self) -> bool: ...
    @property
    def response_metadata(self) -> Mapping[str, Any]: ...


class CallContext(Protocol):
    """The parts of a call that a policy may use."""

    model: CallModel
    author: Author
    """Who answers: the methods of the model's class."""
    run: Run
    settings: CallSettings
    response_metadata: dict[str, Any]
    """What the policies add to the answer's `response_metadata`."""
    received: FoldedAttempt | None
    """Set if a policy of the call `reads_message`."""
    view: View
    """What the caller reads: the message, chunks or events."""

    @property
    def profile(self) -> ModelProfile: ...
    @property
    def model_label(self) -> str: ...


class Reservation(Protocol):
    """What one attempt reserves before it is sent, and settles however it ends."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is reserved, or the reservation is settled."""

    @property
    def has_deadline(self) -> bool:
        """Whether each step of the source runs `in_use`, within the time of the scopes around it."""

    async def reserve(self, request: ChatRequest) -> None:
        """Reserve a share for one attempt; wait for other calls if they leave no room."""

    def in_use(self) -> AbstractContextManager[None]:
        """Return a context that marks that the code inside runs for this attempt."""

    def settle(self, usage: Mapping[str, Any] | None) -> None:
        """Settle an attempt that broke off; one that finished is settled already."""

    async def flush(self) -> None:
        """Pass on at once what a failed attempt told about limits."""


@dataclass(slots=True)
class Failure:
    """A failed attempt, as policies judge it."""

    error: Exception
    attempts: int
    """How many there were, this one included."""
    is_delivered: bool
    """Whether a reader has content of this attempt."""
    is_invoke: bool
    """Whether the caller gets only the message, so that content can be taken back."""
    retry: RetryPolicy
    delay: float
    """The seconds to wait before another attempt."""

    @property
    def may_reset(self) -> bool:
        """Whether readers are told to drop content (`on_partial="reset"`)."""
        return self.retry.on_partial == "reset"

    def decide(self) -> Decision:
        """Return the decision of the retry policy alone, if no policy of the call has another."""
        may_repeat = self.may_reset or not self.is_delivered
        if may_repeat and self.retry.allows(self.error, self.attempts):
            return Decision(repeats=True, delay=self.delay)
        return STOP


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows a failed attempt: another one, after a delay, with messages added to its request; or the error."""

    repeats: bool
    delay: float = 0.0
    messages: Sequence[BaseMessage] = ()


STOP: Final = Decision(repeats=False)


AppliesTo = Literal["settings", "managed", "all"]


class Policy:
    """One feature of a managed call. A subclass overrides the methods it needs."""

    __slots__ = ()

    applies_to: ClassVar[AppliesTo] = "managed"
    """For which calls `applies` is called: for those with `settings`; for `managed` ones, of which anything is known or
    set; or for `all`, plain ones included. Data, because it is read for every call."""
    reads_message: ClassVar[bool] = False
    """Whether this policy needs `call.received`, the message before any policy holds it back."""
    sees_further_answers: ClassVar[bool] = False
    """Whether `on_events` is called for further answers to the same request too (`n` above 1)."""
    watches_events: bool = False
    """Whether `on_events` does anything in this call; read after `before`."""
    holds_back: bool = False
    """Whether content is held back until the message is finished: an error then carries what was received."""
    reservation: Reservation | None = None
    """What every attempt reserves."""

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Return whether a call has this policy."""
        return True

    def __init__(self, call: CallContext) -> None:
        """Create the policy of one call."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # -- once per call

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Return the request to send; the caller's objects are not changed."""
        return request

    async def answer(self, request: ChatRequest) -> CompleteAnswer | None:
        """Return an answer in place of the model's, such as a recorded one; None asks the next one, then the model."""
        return None

    async def approve(self, answer: CompleteAnswer) -> CompleteAnswer | None:
        """Return an answer of the cache, or of a policy inside, as this policy passes it on; None: there is none."""
        return answer

    async def after(self, request: ChatRequest, message: AIMessage) -> AIMessage:
        """Return the message that the caller gets."""
        return message

    async def on_error(self, request: ChatRequest, error: Exception) -> Exception | AIMessage:
        """Return the error to raise, or a message that the caller gets instead."""
        return error

    def notes(self) -> Iterable[str]:
        """Return what was changed in the request without loss, for `explain`."""
        return ()

    # -- once per attempt

    def begin(self) -> None:
        """Discard the state of the previous attempt."""

    async def on_events(self, batch: Batch) -> Batch:
        """Return the events to pass on; an empty batch holds them back, an error rejects the answer."""
        return batch

    def judge(self, failure: Failure) -> Decision | None:
        """Decide what follows a failed attempt; None leaves it to the next policy, and then to the retry policy."""
        return None

    def encode(self, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """Return messages that a decision adds to the next request, in the form of `before`."""
        return messages


def ends_message(batch: Batch) -> bool:
    """Return whether a batch finishes its message; unknown events may follow the finish."""
    return type(batch) is CompleteAnswer or any(
        event.get("event") == "message-finish" for event in batch
    )


publish("foldline.language_models", CallContext, Decision, Failure, Policy, Reservation)
