"""OpenAI: chat completions, Responses, embeddings; Azure by address and key header."""

from typing import TYPE_CHECKING

from weft._lazy import lazily
from weft.providers.openai.chat import ChatOpenAI

if TYPE_CHECKING:
    from weft.providers.openai.azure import AzureChatOpenAI, AzureOpenAIEmbeddings
    from weft.providers.openai.embeddings import OpenAIEmbeddings

__all__ = ["AzureChatOpenAI", "AzureOpenAIEmbeddings", "ChatOpenAI", "OpenAIEmbeddings"]

__getattr__ = lazily(
    __name__,
    {
        "AzureChatOpenAI": ".azure",
        "AzureOpenAIEmbeddings": ".azure",
        "OpenAIEmbeddings": ".embeddings",
    },
)
