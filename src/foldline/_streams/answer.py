"""Batches: a source yields some events at once, and a complete answer is one batch.

A streamed chunk is a batch of one or two events. A batch is never empty when it leaves a source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast, overload

from foldline._lazy import publish
from foldline.messages import AIMessage, BaseMessage
from foldline.messages.usage import UsageMetadata, add_request_usage
from foldline.outputs import ChatGeneration, ChatResult
from foldline.protocol.events import Event
from foldline.protocol.replay import message_to_events
from foldline.utils._trusted import build_trusted

__all__ = ["Batch", "CompleteAnswer", "chat_result", "with_finish"]

Batch: TypeAlias = Sequence[Event]


class CompleteAnswer(Sequence[Event]):
    """A batch that is a complete answer, from `_generate` or from a cache; its events are made when they are read.

    The message itself is what `invoke` returns, so an author's message class and further generations are preserved.
    """

    __slots__ = ("_events", "has_tokens", "is_generated", "result")

    def __init__(
        self, result: ChatResult, *, has_tokens: bool = False, is_generated: bool = False
    ) -> None:
        self.result: ChatResult = result
        self.is_generated: bool = is_generated
        """Whether `_generate` returned it: complete also without a finish reason."""
        self.has_tokens: bool = has_tokens
        """Whether the author has dispatched the tokens of the answer: handlers get them once."""
        self._events: list[Event] | None = None

    @property
    def message(self) -> AIMessage:
        """The answer; the first, if there are several."""
        return cast("AIMessage", self.result.generations[0].message)

    @property
    def events(self) -> list[Event]:
        """The events of the first answer."""
        if self._events is None:
            self._events = list(message_to_events(self.message))
        return self._events

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"CompleteAnswer({str(self.message.text)!r:.60})"

    def __len__(self) -> int:
        return len(self.events)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self.events[index]

    def map(self, change: Callable[[BaseMessage], BaseMessage]) -> CompleteAnswer:
        """Apply a function to the message of every generation."""
        return self.replace([change(generation.message) for generation in self.result.generations])

    def replace(self, messages: Sequence[BaseMessage]) -> CompleteAnswer:
        """Return a copy with other messages, one for each generation; this object if all are the same."""
        generations = self.result.generations
        pairs = list(zip(generations, messages, strict=True))
        if all(generation.message is message for generation, message in pairs):
            return self
        new_generations = [
            generation
            if generation.message is message
            else ChatGeneration._trusted(message, generation.generation_info)
            for generation, message in pairs
        ]
        return CompleteAnswer(
            ChatResult(generations=new_generations, llm_output=self.result.llm_output),
            has_tokens=self.has_tokens,
            is_generated=self.is_generated,
        )


def chat_result(message: BaseMessage) -> ChatResult:
    """Return a result with one message, without validation."""
    generations = [ChatGeneration._trusted(message)]
    return build_trusted(ChatResult, {"generations": generations, "llm_output": None})


def with_finish(
    batch: Batch, metadata: dict[str, Any], spent: UsageMetadata | None = None
) -> Batch:
    """Add metadata, and the usage of failed attempts, to the end of the message that a batch finishes."""
    if type(batch) is CompleteAnswer:
        message, *other_messages = (generation.message for generation in batch.result.generations)
        changes: dict[str, Any] = {"response_metadata": {**message.response_metadata, **metadata}}
        if spent is not None:
            changes["usage_metadata"] = add_request_usage(spent, batch.message.usage_metadata)
        return batch.replace([message.model_copy(update=changes), *other_messages])
    return [_finish(event, metadata, spent) for event in batch]


def _finish(event: Any, metadata: dict[str, Any], spent: UsageMetadata | None) -> Event:  # noqa: ANN401  an event, of which only a finish is changed
    if event["event"] == "message-finish":
        event = {**event, "metadata": {**(event.get("metadata") or {}), **metadata}}
        if spent is not None:
            event["usage"] = add_request_usage(spent, event.get("usage"))
    return cast("Event", event)


publish("foldline.language_models", CompleteAnswer)
