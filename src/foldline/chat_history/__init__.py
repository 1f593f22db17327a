"""Chat histories: the messages of a conversation, in memory, SQLite, PostgreSQL or Redis."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.chat_history.base import BaseChatMessageHistory as BaseChatMessageHistory
    from foldline.chat_history.memory import (
        InMemoryChatMessageHistory as InMemoryChatMessageHistory,
    )
    from foldline.chat_history.postgres import (
        PostgresChatMessageHistory as PostgresChatMessageHistory,
    )
    from foldline.chat_history.redis import RedisChatMessageHistory as RedisChatMessageHistory
    from foldline.chat_history.sqlite import SQLiteChatMessageHistory as SQLiteChatMessageHistory
