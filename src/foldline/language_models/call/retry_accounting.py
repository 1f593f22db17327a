"""The effects of a failed attempt: its usage, and the event that drops its content. Pure."""

from __future__ import annotations

from typing import Final, cast

from foldline.messages.usage import UsageMetadata
from foldline.protocol.events import MessageReset
from foldline.protocol.fold import MessageBuilder

RESET: Final = "message-reset"


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
