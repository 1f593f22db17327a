"""The start, end and failure of a message, if a source did not send them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from foldline.exceptions import ModelError
from foldline.messages import AIMessage
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.tool_call_text import promote


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
