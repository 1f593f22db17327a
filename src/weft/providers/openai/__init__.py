"""OpenAI: chat completions, Responses, embeddings; Azure by address and key header."""

from weft.providers.openai.azure import AzureChatOpenAI, AzureOpenAIEmbeddings
from weft.providers.openai.chat import ChatOpenAI
from weft.providers.openai.embeddings import OpenAIEmbeddings

__all__ = ["AzureChatOpenAI", "AzureOpenAIEmbeddings", "ChatOpenAI", "OpenAIEmbeddings"]
