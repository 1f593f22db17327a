"""Gemini: `generateContent` of the Gemini API and of Vertex, and embeddings."""

from weft.providers.google.chat import ChatGoogle, ChatGoogleGenerativeAI
from weft.providers.google.embeddings import GoogleGenerativeAIEmbeddings
from weft.providers.google.safety import HarmBlockThreshold, HarmCategory

__all__ = [
    "ChatGoogle",
    "ChatGoogleGenerativeAI",
    "GoogleGenerativeAIEmbeddings",
    "HarmBlockThreshold",
    "HarmCategory",
]
