"""`MessagesState` and `add_messages`: a state that is a conversation."""

from __future__ import annotations

from typing import Annotated, TypedDict

from foldline.agents.state import REMOVE_ALL_MESSAGES, add_messages
from foldline.exceptions import UsageError
from foldline.messages import AnyMessage
from foldline.workflows._nesting import current_parent
from foldline.workflows._run_events import FlowEvent

__all__ = ["REMOVE_ALL_MESSAGES", "MessagesState", "add_messages", "push_message"]


class MessagesState(TypedDict):
    """The state of a conversation; subclass it to add keys."""

    messages: Annotated[list[AnyMessage], add_messages]


def push_message(message: AnyMessage, **metadata: object) -> AnyMessage:
    """Send a message to `stream_mode="messages"`; it must have an id."""
    if not message.id:
        raise UsageError("push_message needs a message with an id")
    parent = current_parent.get()
    if parent is not None and parent.emit is not None and "tokens" in parent.wants:
        parent.emit(FlowEvent("tokens", parent.namespace[:-1], None, (message, metadata)))
    return message
