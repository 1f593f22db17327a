"""Gemini: `generateContent` of the Gemini API and of Vertex, and embeddings."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.providers.google.chat import (
        ChatGoogle as ChatGoogle,
        ChatGoogleGenerativeAI as ChatGoogleGenerativeAI,
    )
    from foldline.providers.google.embeddings import (
        GoogleGenerativeAIEmbeddings as GoogleGenerativeAIEmbeddings,
    )
    from foldline.providers.google.safety import (
        HarmBlockThreshold as HarmBlockThreshold,
        HarmCategory as HarmCategory,
    )
