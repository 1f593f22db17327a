"""OpenAI: chat completions, Responses, embeddings; Azure by address and key header."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.providers.openai.azure import (
        AzureChatOpenAI as AzureChatOpenAI,
        AzureOpenAIEmbeddings as AzureOpenAIEmbeddings,
    )
    from foldline.providers.openai.chat import ChatOpenAI as ChatOpenAI
    from foldline.providers.openai.custom_tool import custom_tool as custom_tool
    from foldline.providers.openai.embeddings import OpenAIEmbeddings as OpenAIEmbeddings
    from foldline.providers.openai.text import AzureOpenAI as AzureOpenAI, OpenAI as OpenAI
