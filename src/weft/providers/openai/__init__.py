"""OpenAI: chat completions, Responses, embeddings; Azure by address and key header."""

from weft.providers.openai.azure import AzureChatOpenAI
from weft.providers.openai.chat import ChatOpenAI
from weft.providers.openai.embeddings import OpenAIEmbeddings

__all__ = ["AzureChatOpenAI", "ChatOpenAI", "OpenAIEmbeddings"]
