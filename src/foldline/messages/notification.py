"""Mark human messages that no human wrote: summaries, results of background tasks.

The mark is not proof: anyone who can write input can write it too.
"""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from foldline.exceptions import UsageError
from foldline.messages.base import BaseMessage
from foldline.messages.human import HumanMessage
from foldline.protocol.merge import copy_json

__all__ = ["NotificationMetadata", "add_notification_metadata", "get_notification_metadata"]

SOURCE, DATA = "lc_source", "lc_data"


class NotificationMetadata(TypedDict):
    """The feature that added a message, and its data."""

    source: str
    data: NotRequired[dict[str, Any]]


def add_notification_metadata(
    message: HumanMessage, *, source: str, data: dict[str, Any] | None = None
) -> HumanMessage:
    """Return a copy of `message` marked with the feature that added it."""
    if not source:
        raise UsageError(f"source names the feature that added the message, {source!r} does not")
    kwargs = {
        key: value for key, value in message.additional_kwargs.items() if key not in (SOURCE, DATA)
    }
    kwargs[SOURCE] = source
    if data is not None:
        kwargs[DATA] = copy_json(data)
    return message.model_copy(update={"additional_kwargs": kwargs})


def get_notification_metadata(message: BaseMessage) -> NotificationMetadata | None:
    """Return the mark of a message, or None."""
    source = message.additional_kwargs.get(SOURCE)
    if not isinstance(source, str):
        return None
    data = message.additional_kwargs.get(DATA)
    if isinstance(data, dict):
        return {"source": source, "data": copy_json(data)}
    return {"source": source}
