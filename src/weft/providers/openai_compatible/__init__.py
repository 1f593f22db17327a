"""Every host that speaks chat completions, as rows of a table (`HOSTS`) and names for them."""

from weft.providers.openai_compatible.chat import (
    ChatCerebras,
    ChatDeepSeek,
    ChatFireworks,
    ChatGroq,
    ChatLlamaServer,
    ChatLMStudio,
    ChatMistral,
    ChatMistralAI,
    ChatMoonshot,
    ChatOllama,
    ChatOpenAICompatible,
    ChatOpenRouter,
    ChatPerplexity,
    ChatQwen,
    ChatTogether,
    ChatVLLM,
    ChatXAI,
)
from weft.providers.openai_compatible.hosts import HOSTS

__all__ = [
    "HOSTS",
    "ChatCerebras",
    "ChatDeepSeek",
    "ChatFireworks",
    "ChatGroq",
    "ChatLMStudio",
    "ChatLlamaServer",
    "ChatMistral",
    "ChatMistralAI",
    "ChatMoonshot",
    "ChatOllama",
    "ChatOpenAICompatible",
    "ChatOpenRouter",
    "ChatPerplexity",
    "ChatQwen",
    "ChatTogether",
    "ChatVLLM",
    "ChatXAI",
]
