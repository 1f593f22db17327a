"""Where the messages of a conversation are kept between calls."""

from weft.chat_history.base import BaseChatMessageHistory
from weft.chat_history.memory import InMemoryChatMessageHistory

__all__ = ["BaseChatMessageHistory", "InMemoryChatMessageHistory"]
