"""Every host that speaks chat completions, as rows of a table (`HOSTS`) and names for them."""

from weft.language_models.profile import register_profiles
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
from weft.providers.openai_compatible.profiles import PROFILES

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

for _host, _profiles in PROFILES.items():
    register_profiles(_host, _profiles)
