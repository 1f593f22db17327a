"""Models of AWS Bedrock: over its Converse API, and Claude's and OpenAI's over their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.providers.bedrock.chat import ChatBedrock, ChatBedrockConverse
    from foldline.providers.bedrock.claude import (
        ChatAnthropicBedrock,
        ChatAnthropicMantle,
        ChatOpenAIMantle,
    )
    from foldline.providers.bedrock.embeddings import BedrockEmbeddings

__all__ = [
    "BedrockEmbeddings",
    "ChatAnthropicBedrock",
    "ChatAnthropicMantle",
    "ChatBedrock",
    "ChatBedrockConverse",
    "ChatOpenAIMantle",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".chat": "ChatBedrock ChatBedrockConverse",
        ".claude": "ChatAnthropicBedrock ChatAnthropicMantle ChatOpenAIMantle",
        ".embeddings": "BedrockEmbeddings",
    },
)
