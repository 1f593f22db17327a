"""The start, end, failure and reset of a message that its source did not send. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

from foldline.exceptions import ModelError
from foldline.messages import AIMessage
from foldline.messages.usage import UsageMetadata
from foldline.protocol.events import Event, MessageReset
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.tool_call_parser import promote

RESET: Final = "message-reset"


def open_message(event: Mapping[str, Any], id: str) -> Event:
    """Return the start of a message with this first event; one without an id gets this one."""
    if event["event"] != "message-start":
        return {"event": "message-start", "role": "ai", "id": id}
    return cast("Event", event if event.get("id") else {**event, "id": id})


def close_message(builder: MessageBuilder) -> list[Event]:
    """Return the events that finish the open blocks and the message (T04, T11)."""
    finishes: list[Event] = [
        {
            "event": "content-block-finish",
            "index": index,
            "content": cast("Any", promote(builder.block(index) or {})),
        }
        for index in builder.open_indexes()
    ]
    return [*finishes, {"event": "message-finish"}]


def error_of(event: Mapping[str, Any], **location: Any) -> ModelError:
    """Return the typed error of an `error` event (T09)."""
    return ModelError(
        str(event.get("message") or "the provider reported an error"),
        code=event.get("code"),
        is_retryable=bool(event.get("retryable", False)),
        **location,
    )


def attach_partial(error: BaseException, message: AIMessage) -> None:
    """Attach the partial message to an error, also to an author's, if it has none and can be changed."""
    if isinstance(error, Exception) and getattr(error, "partial", None) is None:
        with suppress(AttributeError, TypeError):
            error.partial = message  # type: ignore[attr-defined]


def usage_of_failure(error: BaseException, builder: MessageBuilder) -> UsageMetadata | None:
    """Return the usage of a failed attempt, as far as it is known."""
    partial = getattr(error, "partial", None)
    usage = (
        builder.usage or getattr(error, "usage", None) or getattr(partial, "usage_metadata", None)
    )
    return cast("UsageMetadata | None", usage or None)


def reset_event(id: str | None, attempt: int, error: BaseException) -> MessageReset:
    """Return the event that tells the consumer to drop the message so far."""
    return {"event": RESET, "id": id or "", "attempt": attempt, "reason": str(error)}
