"""Gemini: `generateContent` of the Gemini API and of Vertex, and embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.providers.google.chat import ChatGoogle, ChatGoogleGenerativeAI
    from foldline.providers.google.embeddings import GoogleGenerativeAIEmbeddings
    from foldline.providers.google.safety import HarmBlockThreshold, HarmCategory

__all__ = [
    "ChatGoogle",
    "ChatGoogleGenerativeAI",
    "GoogleGenerativeAIEmbeddings",
    "HarmBlockThreshold",
    "HarmCategory",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".chat": "ChatGoogle ChatGoogleGenerativeAI",
        ".embeddings": "GoogleGenerativeAIEmbeddings",
        ".safety": "HarmBlockThreshold HarmCategory",
    },
)
