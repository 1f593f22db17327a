"""`InMemoryChatMessageHistory`: the messages of one conversation, in a list."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field, SerializeAsAny

from foldline.chat_history.base import BaseChatMessageHistory
from foldline.messages import BaseMessage, message_chunk_to_message

__all__ = ["InMemoryChatMessageHistory"]


class InMemoryChatMessageHistory(BaseChatMessageHistory, BaseModel):
    """Stores messages in this process.

    ```python
    from foldline.chat_history import InMemoryChatMessageHistory

    history = InMemoryChatMessageHistory()
    history.add_user_message("hi")
    history.add_ai_message("hello")
    print([message.text for message in history.messages])
    #> ['hi', 'hello']
    ```
    """

    messages: list[SerializeAsAny[BaseMessage]] = Field(default_factory=list)
    """The messages, oldest first."""

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages."""
        full_messages = [message_chunk_to_message(message) for message in messages]
        self.messages.extend(full_messages)  # one call: no other thread's messages come between

    def clear(self) -> None:
        """Forget all messages."""
        self.messages = []

    def drop_oldest(self, count: int) -> None:
        """Forget the oldest messages."""
        del self.messages[:count]

    # A list answers at once: no thread is needed to keep the loop free.

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the messages, oldest first."""
        return self.messages

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages."""
        self.add_messages(messages)

    async def aclear(self) -> None:
        """Forget all messages."""
        self.clear()

    async def adrop_oldest(self, count: int) -> None:
        """Forget the oldest messages."""
        self.drop_oldest(count)
