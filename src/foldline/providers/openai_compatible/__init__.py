"""Hosts with an API compatible with OpenAI's chat completions: a table (`HOSTS`) and a class for each."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.providers.openai_compatible._hosts import HOSTS as HOSTS
    from foldline.providers.openai_compatible.chat import (
        AzureAIChatCompletionsModel as AzureAIChatCompletionsModel,
        AzureAIOpenAIApiChatModel as AzureAIOpenAIApiChatModel,
        ChatAIGNEHub as ChatAIGNEHub,
        ChatBaseten as ChatBaseten,
        ChatCerebras as ChatCerebras,
        ChatCohere as ChatCohere,
        ChatDeepSeek as ChatDeepSeek,
        ChatDoubao as ChatDoubao,
        ChatFireworks as ChatFireworks,
        ChatGroq as ChatGroq,
        ChatHuggingFace as ChatHuggingFace,
        ChatLiteLLM as ChatLiteLLM,
        ChatLlamaServer as ChatLlamaServer,
        ChatLMStudio as ChatLMStudio,
        ChatMeta as ChatMeta,
        ChatMistral as ChatMistral,
        ChatMistralAI as ChatMistralAI,
        ChatMoonshot as ChatMoonshot,
        ChatNVIDIA as ChatNVIDIA,
        ChatOllama as ChatOllama,
        ChatOpenAICompatible as ChatOpenAICompatible,
        ChatOpenRouter as ChatOpenRouter,
        ChatPerplexity as ChatPerplexity,
        ChatPoe as ChatPoe,
        ChatQwen as ChatQwen,
        ChatSambaNova as ChatSambaNova,
        ChatTogether as ChatTogether,
        ChatUpstage as ChatUpstage,
        ChatVLLM as ChatVLLM,
        ChatWatsonx as ChatWatsonx,
        ChatXAI as ChatXAI,
    )
