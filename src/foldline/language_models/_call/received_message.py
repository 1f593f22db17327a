"""The message of the model: folded before any policy checks it or holds it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from foldline._streams.answer import Batch, CompleteAnswer
from foldline.language_models._call.policy import CallContext, Policy
from foldline.messages import AIMessage
from foldline.messages.usage import UsageMetadata
from foldline.protocol.fold import MessageBuilder

__all__ = ["ReceivedMessage"]


class ReceivedMessage(Policy):
    """Folds the events of one attempt, for the policies after it."""

    __slots__ = ("_builder", "_call", "_complete_answer", "failure")
    watches_events = True

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._builder = MessageBuilder(call.model._fold_limits)
        self._complete_answer: CompleteAnswer | None = None
        self.failure: Exception | None = None

    def begin(self) -> None:
        """Discard the previous attempt."""
        self._builder = MessageBuilder(self._call.model._fold_limits)
        self._complete_answer = None
        self.failure = None

    async def on_events(self, batch: Batch) -> Batch:
        """Fold the events."""
        if type(batch) is CompleteAnswer:
            self._complete_answer = batch
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
        if self._complete_answer is not None:
            return self._complete_answer.message
        return AIMessage.from_fold(self._builder.result(), "v0")

    @property
    def partial(self) -> AIMessage:
        """The message so far."""
        return AIMessage.from_fold(self._builder.result(partial=True), "v0")

    @property
    def usage(self) -> UsageMetadata | None:
        """The usage of the message, if it is known."""
        usage: Any = (
            self._builder.usage if self._complete_answer is None else self.message.usage_metadata
        )
        return usage or None

    @property
    def blocks(self) -> Sequence[Mapping[str, Any]]:
        """The content so far."""
        if self._complete_answer is not None:
            return cast("Sequence[Mapping[str, Any]]", self.message.content_blocks)
        return cast("Sequence[Mapping[str, Any]]", self._builder.blocks(partial=True))

    @property
    def has_begun(self) -> bool:
        """Whether the answer has begun."""
        return self._complete_answer is not None or self._builder.is_started

    @property
    def response_metadata(self) -> Mapping[str, Any]:
        """The response metadata so far."""
        if self._complete_answer is not None:
            return self.message.response_metadata
        return self._builder.metadata
