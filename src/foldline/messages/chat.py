"""A message with an arbitrary role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from foldline.exceptions import UsageError
from foldline.messages.base import BaseMessage, BaseMessageChunk, Content

if TYPE_CHECKING:
    from foldline.protocol.blocks import ContentBlock

__all__ = ["ChatMessage", "ChatMessageChunk"]


class ChatMessage(BaseMessage):
    """A message of any role.

    ```python
    from foldline.messages import ChatMessage

    print(ChatMessage("order!", role="chair").role)
    #> chair
    ```
    """

    role: str
    """The role of the speaker."""
    type: Literal["chat"] = "chat"

    if TYPE_CHECKING:  # type checkers generate an `__init__` for a model that has none

        def __init__(
            self,
            content: Content | None = None,
            content_blocks: Sequence[ContentBlock] | None = None,
            *,
            role: str,
            **kwargs: object,
        ) -> None: ...


class ChatMessageChunk(ChatMessage, BaseMessageChunk):
    """A piece of a chat message; chunks of different roles cannot be added."""

    type: Literal["ChatMessageChunk"] = "ChatMessageChunk"  # type: ignore[assignment]

    if TYPE_CHECKING:  # type checkers generate an `__init__` for a model that has none

        def __init__(
            self,
            content: Content | None = None,
            content_blocks: Sequence[ContentBlock] | None = None,
            *,
            role: str,
            **kwargs: object,
        ) -> None: ...

    def _concat(self, other: BaseMessageChunk) -> Self:
        if isinstance(other, ChatMessageChunk) and other.role != self.role:
            raise UsageError(
                f"Cannot concatenate ChatMessageChunks with different roles: {self.role!r} and {other.role!r}"
            )
        return super()._concat(other)
