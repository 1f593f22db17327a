"""Models on Google's Vertex AI: Gemini, Claude and embeddings, under LangChain's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.providers.vertex.chat import ChatVertexAI
    from foldline.providers.vertex.claude import ChatAnthropicVertex
    from foldline.providers.vertex.embeddings import VertexAIEmbeddings

__all__ = ["ChatAnthropicVertex", "ChatVertexAI", "VertexAIEmbeddings"]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".chat": "ChatVertexAI",
        ".claude": "ChatAnthropicVertex",
        ".embeddings": "VertexAIEmbeddings",
    },
)
