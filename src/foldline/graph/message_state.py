"""`MessagesState` and `add_messages`: a state that is a conversation."""

from __future__ import annotations

from typing import Annotated, TypedDict

from foldline.agents.state import REMOVE_ALL_MESSAGES, add_messages
from foldline.exceptions import UsageError
from foldline.messages import AnyMessage
from foldline.workflows.events import FlowEvent
from foldline.workflows.nesting import within

__all__ = ["REMOVE_ALL_MESSAGES", "MessagesState", "add_messages", "push_message"]


class MessagesState(TypedDict):
    """The state of a conversation; subclass it to add keys."""

    messages: Annotated[list[AnyMessage], add_messages]


def push_message(message: AnyMessage, **about: object) -> AnyMessage:
    """Send a message to `stream_mode="messages"` by hand; it must have an id."""
    if not message.id:
        raise UsageError("push_message needs a message with an id")
    place = within.get()
    if place is not None and place.emit is not None and "tokens" in place.wants:
        place.emit(FlowEvent("tokens", place.namespace[:-1], None, (message, about)))
    return message
