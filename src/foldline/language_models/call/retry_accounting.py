"""What a failed attempt leaves behind: what it spent, and the event that takes back what it said. Pure."""

from __future__ import annotations

from typing import Final, cast

from foldline.messages.usage import UsageMetadata
from foldline.protocol.events import MessageReset
from foldline.protocol.fold import MessageBuilder

RESET: Final = "message-reset"


def usage_of_failure(error: BaseException, builder: MessageBuilder) -> UsageMetadata | None:
    """Return what a failed attempt is known to have spent."""
    partial = getattr(error, "partial", None)
    known = (
        builder.usage or getattr(error, "usage", None) or getattr(partial, "usage_metadata", None)
    )
    return cast("UsageMetadata | None", known or None)


def reset_event(id: str | None, attempt: int, error: BaseException) -> MessageReset:
    """Tell the consumer to drop what the message said so far."""
    return {"event": RESET, "id": id or "", "attempt": attempt, "reason": str(error)}
