"""What a repeated attempt leaves in the answer: how many there were, what all of them spent, what to drop. Pure."""

from __future__ import annotations

from typing import Any, Final, cast

from foldline.messages import AIMessage
from foldline.messages.usage import UsageMetadata, add_usage
from foldline.protocol.events import Event, MessageReset
from foldline.protocol.fold import MessageBuilder

RESET: Final = "message-reset"


def usage_of_failure(error: BaseException, builder: MessageBuilder) -> UsageMetadata | None:
    """Give what a failed attempt is known to have spent."""
    partial = getattr(error, "partial", None)
    known = (
        builder.usage or getattr(error, "usage", None) or getattr(partial, "usage_metadata", None)
    )
    return cast("UsageMetadata | None", known or None)


def summed_finish(event: Any, spent: UsageMetadata | None, retries: int) -> Event:
    """Give the end of a message with what every attempt spent, and how many there were."""
    finish = {**event, "metadata": {**(event.get("metadata") or {}), "retries": retries}}
    if spent is not None:
        finish["usage"] = add_usage(spent, finish.get("usage"))
    return cast("Event", finish)


def summed_message(message: AIMessage, spent: UsageMetadata | None, retries: int) -> None:
    """Put into a message what every attempt spent, and how many there were."""
    message.response_metadata = {**message.response_metadata, "retries": retries}
    if spent is not None:
        message.usage_metadata = add_usage(spent, message.usage_metadata)


def reset_event(id: str | None, attempt: int, error: BaseException) -> MessageReset:
    """Tell the consumer to drop what the message said so far."""
    return {"event": RESET, "id": id or "", "attempt": attempt, "reason": str(error)}
