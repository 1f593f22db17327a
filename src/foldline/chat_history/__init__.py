"""Chat histories: the messages of a conversation, in memory, SQLite, PostgreSQL or Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.chat_history.base import BaseChatMessageHistory
    from foldline.chat_history.memory import InMemoryChatMessageHistory
    from foldline.chat_history.postgres import PostgresChatMessageHistory
    from foldline.chat_history.redis import RedisChatMessageHistory
    from foldline.chat_history.sqlite import SQLiteChatMessageHistory

__all__ = [
    "BaseChatMessageHistory",
    "InMemoryChatMessageHistory",
    "PostgresChatMessageHistory",
    "RedisChatMessageHistory",
    "SQLiteChatMessageHistory",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "BaseChatMessageHistory",
        ".memory": "InMemoryChatMessageHistory",
        ".postgres": "PostgresChatMessageHistory",
        ".redis": "RedisChatMessageHistory",
        ".sqlite": "SQLiteChatMessageHistory",
    },
)
