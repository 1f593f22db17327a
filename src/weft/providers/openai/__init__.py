"""OpenAI: chat completions, Responses, embeddings; Azure by address and key header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.providers.openai.azure import AzureChatOpenAI, AzureOpenAIEmbeddings
    from weft.providers.openai.chat import ChatOpenAI
    from weft.providers.openai.embeddings import OpenAIEmbeddings

__all__ = ["AzureChatOpenAI", "AzureOpenAIEmbeddings", "ChatOpenAI", "OpenAIEmbeddings"]

__getattr__ = lazily(
    __name__,
    {
        ".azure": "AzureChatOpenAI AzureOpenAIEmbeddings",
        ".chat": "ChatOpenAI",
        ".embeddings": "OpenAIEmbeddings",
    },
)
