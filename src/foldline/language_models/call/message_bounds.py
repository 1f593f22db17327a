"""The borders of a message, where a source did not say them: its beginning, its end, its failure. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from foldline.exceptions import ModelError
from foldline.messages import AIMessage
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.promote import promote


def open_message(event: Mapping[str, Any], id: str) -> Event:
    """Return the start of a message whose first event this is; one without an id gets this one."""
    if event["event"] != "message-start":
        return {"event": "message-start", "role": "ai", "id": id}
    return cast("Event", event if event.get("id") else {**event, "id": id})


def close_message(builder: MessageBuilder) -> list[Event]:
    """Finish what a native producer left open, then the message itself (T04, T11)."""
    finishes: list[Event] = [
        {
            "event": "content-block-finish",
            "index": index,
            "content": cast("Any", promote(builder.block(index) or {})),
        }
        for index in builder.open_indexes()
    ]
    return [*finishes, {"event": "message-finish"}]


def error_of(event: Mapping[str, Any], **where: Any) -> ModelError:
    """Make the typed error that an `error` event says (T09)."""
    return ModelError(
        str(event.get("message") or "the provider reported an error"),
        code=event.get("code"),
        is_retryable=bool(event.get("retryable", False)),
        **where,
    )


def attach_partial(error: BaseException, message: AIMessage) -> None:
    """Put what had arrived on an error, an author's own too, where it holds nothing yet and can be changed."""
    if isinstance(error, Exception) and getattr(error, "partial", None) is None:
        with suppress(AttributeError, TypeError):
            error.partial = message  # type: ignore[attr-defined]
