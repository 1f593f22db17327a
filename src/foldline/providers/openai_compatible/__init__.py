"""Hosts with an API compatible with OpenAI's chat completions: a table (`HOSTS`) and a class for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.providers.openai_compatible.chat import (
        AzureAIChatCompletionsModel,
        AzureAIOpenAIApiChatModel,
        ChatAIGNEHub,
        ChatBaseten,
        ChatCerebras,
        ChatCohere,
        ChatDeepSeek,
        ChatDoubao,
        ChatFireworks,
        ChatGroq,
        ChatHuggingFace,
        ChatLiteLLM,
        ChatLlamaServer,
        ChatLMStudio,
        ChatMeta,
        ChatMistral,
        ChatMistralAI,
        ChatMoonshot,
        ChatNVIDIA,
        ChatOllama,
        ChatOpenAICompatible,
        ChatOpenRouter,
        ChatPerplexity,
        ChatPoe,
        ChatQwen,
        ChatSambaNova,
        ChatTogether,
        ChatUpstage,
        ChatVLLM,
        ChatWatsonx,
        ChatXAI,
    )
    from foldline.providers.openai_compatible.hosts import HOSTS

__all__ = [
    "HOSTS",
    "AzureAIChatCompletionsModel",
    "AzureAIOpenAIApiChatModel",
    "ChatAIGNEHub",
    "ChatBaseten",
    "ChatCerebras",
    "ChatCohere",
    "ChatDeepSeek",
    "ChatDoubao",
    "ChatFireworks",
    "ChatGroq",
    "ChatHuggingFace",
    "ChatLMStudio",
    "ChatLiteLLM",
    "ChatLlamaServer",
    "ChatMeta",
    "ChatMistral",
    "ChatMistralAI",
    "ChatMoonshot",
    "ChatNVIDIA",
    "ChatOllama",
    "ChatOpenAICompatible",
    "ChatOpenRouter",
    "ChatPerplexity",
    "ChatPoe",
    "ChatQwen",
    "ChatSambaNova",
    "ChatTogether",
    "ChatUpstage",
    "ChatVLLM",
    "ChatWatsonx",
    "ChatXAI",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".chat": "AzureAIChatCompletionsModel AzureAIOpenAIApiChatModel ChatAIGNEHub "
        "ChatBaseten ChatCerebras ChatCohere ChatDeepSeek ChatDoubao "
        "ChatFireworks ChatGroq ChatHuggingFace ChatLMStudio ChatLiteLLM "
        "ChatLlamaServer ChatMeta ChatMistral ChatMistralAI ChatMoonshot "
        "ChatNVIDIA ChatOllama ChatOpenAICompatible ChatOpenRouter "
        "ChatPerplexity ChatPoe ChatQwen ChatSambaNova ChatTogether ChatUpstage "
        "ChatVLLM ChatWatsonx ChatXAI",
        ".hosts": "HOSTS",
    },
)
