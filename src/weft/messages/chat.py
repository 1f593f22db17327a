"""A message of a role that has no class of its own."""

from __future__ import annotations

from typing import Literal, Self

from weft.exceptions import UsageError
from weft.messages.base import BaseMessage, BaseMessageChunk

__all__ = ["ChatMessage", "ChatMessageChunk"]


class ChatMessage(BaseMessage):
    """A message of any role.

    ```python
    from weft.messages import ChatMessage

    print(ChatMessage("order!", role="chair").role)
    #> chair
    ```
    """

    role: str
    """Who speaks."""
    type: Literal["chat"] = "chat"


class ChatMessageChunk(ChatMessage, BaseMessageChunk):
    """A piece of a chat message; pieces of different roles do not add up."""

    type: Literal["ChatMessageChunk"] = "ChatMessageChunk"  # type: ignore[assignment]

    def _joined(self, other: BaseMessageChunk) -> Self:
        if isinstance(other, ChatMessageChunk) and other.role != self.role:
            raise UsageError(
                f"cannot join chat chunks of the roles {self.role!r} and {other.role!r}: keep them apart"
            )
        return super()._joined(other)
