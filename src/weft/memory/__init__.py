"""Memories: what a chain remembers between calls, with any chat history behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.memory.base import BaseMemory
    from weft.memory.buffer import (
        ConversationBufferMemory,
        ConversationBufferWindowMemory,
        ConversationTokenBufferMemory,
    )
    from weft.memory.chat_memory import BaseChatMemory
    from weft.memory.simple import CombinedMemory, ReadOnlySharedMemory, SimpleMemory
    from weft.memory.summary import ConversationSummaryBufferMemory, ConversationSummaryMemory
    from weft.memory.vectorstore import VectorStoreRetrieverMemory

__all__ = [
    "BaseChatMemory",
    "BaseMemory",
    "CombinedMemory",
    "ConversationBufferMemory",
    "ConversationBufferWindowMemory",
    "ConversationSummaryBufferMemory",
    "ConversationSummaryMemory",
    "ConversationTokenBufferMemory",
    "ReadOnlySharedMemory",
    "SimpleMemory",
    "VectorStoreRetrieverMemory",
]

__getattr__ = lazily(
    __name__,
    {
        ".base": "BaseMemory",
        ".buffer": "ConversationBufferMemory ConversationBufferWindowMemory "
        "ConversationTokenBufferMemory",
        ".chat_memory": "BaseChatMemory",
        ".simple": "CombinedMemory ReadOnlySharedMemory SimpleMemory",
        ".summary": "ConversationSummaryBufferMemory ConversationSummaryMemory",
        ".vectorstore": "VectorStoreRetrieverMemory",
    },
)
