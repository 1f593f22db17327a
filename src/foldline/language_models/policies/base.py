"""`Policy`: one feature that a managed call adds to a model call, with up to four methods.

Policies are in a list (`stack.policies_for`). `before` runs down the list, once per call; `on_events` runs down it for
every batch of every attempt; `after` and `on_error` run up it, once per call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from foldline._run import Run
from foldline.language_models.call.batch import Batch, CompleteAnswer
from foldline.language_models.call.model import CallModel
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.policies.settings import CallSettings
from foldline.language_models.profile import ModelProfile
from foldline.messages import AIMessage
from foldline.messages.usage import UsageMetadata

__all__ = ["CallContext", "FoldedAttempt", "Policy", "ends_message"]


class FoldedAttempt(Protocol):
    """The model's message in this attempt, before any policy holds it back: see `policies.received`."""

    @property
    def message(self) -> AIMessage: ...
    @property
    def usage(self) -> UsageMetadata | None: ...
    @property
    def has_begun(self) -> bool: ...
    @property
    def response_metadata(self) -> Mapping[str, Any]: ...


class CallContext(Protocol):
    """The parts of a call that a policy may use."""

    model: CallModel
    run: Run
    settings: CallSettings
    response_metadata: dict[str, Any]
    """What the policies add to the answer's `response_metadata`."""
    received: FoldedAttempt | None
    """Set if a policy of the call needs the message."""

    @property
    def profile(self) -> ModelProfile: ...
    @property
    def model_label(self) -> str: ...


class Policy:
    """One feature of a managed call. A subclass overrides the methods it needs."""

    __slots__ = ()

    def __init__(self, call: CallContext) -> None:
        """Create the policy of one call."""

    watches_events: bool = False
    """Whether `on_events` does anything in this call."""
    sees_further_answers: ClassVar[bool] = False
    """Whether `on_events` is called for further answers to the same request too (`n` above 1)."""

    def begin(self) -> None:
        """Discard the state of the previous attempt."""

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Return the request to send; the caller's objects are not changed."""
        return request

    async def on_events(self, batch: Batch) -> Batch:
        """Return the events to pass on; an empty batch holds them back, an error rejects the answer."""
        return batch

    async def after(self, request: ChatRequest, message: AIMessage) -> AIMessage:
        """Return the message that the caller gets."""
        return message

    async def on_error(self, request: ChatRequest, error: Exception) -> Exception | AIMessage:
        """Return the error to raise, or a message that the caller gets instead."""
        return error


def ends_message(batch: Batch) -> bool:
    """Return whether a batch finishes its message; unknown events may follow the finish."""
    return type(batch) is CompleteAnswer or any(
        event.get("event") == "message-finish" for event in batch
    )
