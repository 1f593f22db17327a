"""Models on Google's Vertex AI: Gemini, Claude and embeddings, under LangChain's names."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.providers.vertex.chat import ChatVertexAI as ChatVertexAI
    from foldline.providers.vertex.claude import ChatAnthropicVertex as ChatAnthropicVertex
    from foldline.providers.vertex.embeddings import VertexAIEmbeddings as VertexAIEmbeddings
