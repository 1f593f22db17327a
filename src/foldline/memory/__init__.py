"""Memories: state that a chain keeps between calls, stored in any chat history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.memory.base import BaseMemory
    from foldline.memory.buffer import (
        ConversationBufferMemory,
        ConversationBufferWindowMemory,
        ConversationTokenBufferMemory,
    )
    from foldline.memory.chat_memory import BaseChatMemory
    from foldline.memory.entity import (
        BaseEntityStore,
        ConversationEntityMemory,
        InMemoryEntityStore,
        StoredEntities,
    )
    from foldline.memory.knowledge import ConversationKGMemory, KnowledgeGraph, KnowledgeTriple
    from foldline.memory.simple import CombinedMemory, ReadOnlySharedMemory, SimpleMemory
    from foldline.memory.summary import ConversationSummaryBufferMemory, ConversationSummaryMemory
    from foldline.memory.vectorstore import VectorStoreRetrieverMemory

__all__ = [
    "BaseChatMemory",
    "BaseEntityStore",
    "BaseMemory",
    "CombinedMemory",
    "ConversationBufferMemory",
    "ConversationBufferWindowMemory",
    "ConversationEntityMemory",
    "ConversationKGMemory",
    "ConversationSummaryBufferMemory",
    "ConversationSummaryMemory",
    "ConversationTokenBufferMemory",
    "InMemoryEntityStore",
    "KnowledgeGraph",
    "KnowledgeTriple",
    "ReadOnlySharedMemory",
    "SimpleMemory",
    "StoredEntities",
    "VectorStoreRetrieverMemory",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "BaseMemory",
        ".buffer": "ConversationBufferMemory ConversationBufferWindowMemory "
        "ConversationTokenBufferMemory",
        ".chat_memory": "BaseChatMemory",
        ".entity": "BaseEntityStore ConversationEntityMemory InMemoryEntityStore StoredEntities",
        ".knowledge": "ConversationKGMemory KnowledgeGraph KnowledgeTriple",
        ".simple": "CombinedMemory ReadOnlySharedMemory SimpleMemory",
        ".summary": "ConversationSummaryBufferMemory ConversationSummaryMemory",
        ".vectorstore": "VectorStoreRetrieverMemory",
    },
)
