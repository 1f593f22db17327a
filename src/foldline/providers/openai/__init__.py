"""OpenAI: chat completions, Responses, embeddings; Azure by address and key header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.providers.openai.azure import AzureChatOpenAI, AzureOpenAIEmbeddings
    from foldline.providers.openai.chat import ChatOpenAI
    from foldline.providers.openai.custom_tool import custom_tool
    from foldline.providers.openai.embeddings import OpenAIEmbeddings
    from foldline.providers.openai.text import AzureOpenAI, OpenAI

__all__ = [
    "AzureChatOpenAI",
    "AzureOpenAI",
    "AzureOpenAIEmbeddings",
    "ChatOpenAI",
    "OpenAI",
    "OpenAIEmbeddings",
    "custom_tool",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".azure": "AzureChatOpenAI AzureOpenAIEmbeddings",
        ".chat": "ChatOpenAI",
        ".custom_tool": "custom_tool",
        ".embeddings": "OpenAIEmbeddings",
        ".text": "AzureOpenAI OpenAI",
    },
)
