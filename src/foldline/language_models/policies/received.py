"""The message as the model said it: folded before any policy judges it or holds it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foldline.language_models.call.batch import Batch, CompleteAnswer
from foldline.language_models.policies.base import CallContext, Policy
from foldline.messages import AIMessage
from foldline.messages.usage import UsageMetadata
from foldline.protocol.fold import MessageBuilder

__all__ = ["ReceivedMessage"]


class ReceivedMessage(Policy):
    """Folds one attempt, for the policies after it."""

    __slots__ = ("_builder", "_call", "_whole")
    watches_events = True

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._builder = MessageBuilder(call.model._fold_limits)
        self._whole: CompleteAnswer | None = None
        call.received = self

    def begin(self) -> None:
        """Forget the attempt before."""
        self._builder = MessageBuilder(self._call.model._fold_limits)
        self._whole = None

    async def on_events(self, batch: Batch) -> Batch:
        """Fold the events."""
        if type(batch) is CompleteAnswer:
            self._whole = batch
        else:
            for event in batch:
                self._builder.feed(event)
        return batch

    @property
    def builder(self) -> MessageBuilder:
        """The fold of this attempt."""
        return self._builder

    @property
    def message(self) -> AIMessage:
        """The finished message."""
        if self._whole is not None:
            return self._whole.message
        return AIMessage.from_fold(self._builder.result(), "v0")

    @property
    def partial(self) -> AIMessage:
        """What was received so far."""
        return AIMessage.from_fold(self._builder.result(partial=True), "v0")

    @property
    def usage(self) -> UsageMetadata | None:
        """The usage that the message reports, if it does yet."""
        usage: Any = self._builder.usage if self._whole is None else self.message.usage_metadata
        return usage or None

    @property
    def has_begun(self) -> bool:
        """Whether the provider has begun to answer."""
        return self._whole is not None or self._builder.is_started

    @property
    def response_metadata(self) -> Mapping[str, Any]:
        """What the answer says of itself so far."""
        if self._whole is not None:
            return self.message.response_metadata
        return self._builder.metadata
