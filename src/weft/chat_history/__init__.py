"""Chat histories: the messages of a conversation, in memory, SQLite, PostgreSQL or Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.chat_history.base import BaseChatMessageHistory
from weft.chat_history.memory import InMemoryChatMessageHistory

if TYPE_CHECKING:
    from weft.chat_history.postgres import PostgresChatMessageHistory
    from weft.chat_history.redis import RedisChatMessageHistory
    from weft.chat_history.sqlite import SQLiteChatMessageHistory

__all__ = [
    "BaseChatMessageHistory",
    "InMemoryChatMessageHistory",
    "PostgresChatMessageHistory",
    "RedisChatMessageHistory",
    "SQLiteChatMessageHistory",
]


def __getattr__(name: str) -> type:
    # The drivers are loaded by those who use them.
    if name == "SQLiteChatMessageHistory":
        from weft.chat_history.sqlite import SQLiteChatMessageHistory  # noqa: PLC0415

        return SQLiteChatMessageHistory
    if name == "PostgresChatMessageHistory":
        from weft.chat_history.postgres import PostgresChatMessageHistory  # noqa: PLC0415

        return PostgresChatMessageHistory
    if name == "RedisChatMessageHistory":
        from weft.chat_history.redis import RedisChatMessageHistory  # noqa: PLC0415

        return RedisChatMessageHistory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
