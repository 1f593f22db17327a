"""Memories: state that a chain keeps between calls, stored in any chat history."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.memory.base import BaseMemory as BaseMemory
    from foldline.memory.buffer import (
        ConversationBufferMemory as ConversationBufferMemory,
        ConversationBufferWindowMemory as ConversationBufferWindowMemory,
        ConversationTokenBufferMemory as ConversationTokenBufferMemory,
    )
    from foldline.memory.chat_memory import BaseChatMemory as BaseChatMemory
    from foldline.memory.entity import (
        BaseEntityStore as BaseEntityStore,
        ConversationEntityMemory as ConversationEntityMemory,
        InMemoryEntityStore as InMemoryEntityStore,
        StoredEntities as StoredEntities,
    )
    from foldline.memory.knowledge import (
        ConversationKGMemory as ConversationKGMemory,
        KnowledgeTriple as KnowledgeTriple,
    )
    from foldline.memory.simple import (
        CombinedMemory as CombinedMemory,
        ReadOnlySharedMemory as ReadOnlySharedMemory,
        SimpleMemory as SimpleMemory,
    )
    from foldline.memory.summary import (
        ConversationSummaryBufferMemory as ConversationSummaryBufferMemory,
        ConversationSummaryMemory as ConversationSummaryMemory,
    )
    from foldline.memory.vectorstore import VectorStoreRetrieverMemory as VectorStoreRetrieverMemory
