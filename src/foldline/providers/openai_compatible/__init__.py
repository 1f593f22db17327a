"""Every host that speaks chat completions, as rows of a table (`HOSTS`) and names for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import lazily

if TYPE_CHECKING:
    from foldline.providers.openai_compatible.chat import (
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
    from foldline.providers.openai_compatible.hosts import HOSTS

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

__getattr__ = lazily(
    __name__,
    {
        ".chat": "ChatCerebras ChatDeepSeek ChatFireworks ChatGroq ChatLMStudio ChatLlamaServer "
        "ChatMistral ChatMistralAI ChatMoonshot ChatOllama ChatOpenAICompatible "
        "ChatOpenRouter ChatPerplexity ChatQwen ChatTogether ChatVLLM ChatXAI",
        ".hosts": "HOSTS",
    },
)
