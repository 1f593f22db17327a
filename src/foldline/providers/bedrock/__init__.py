"""Models of AWS Bedrock, over its Converse API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import lazily

if TYPE_CHECKING:
    from foldline.providers.bedrock.chat import ChatBedrock, ChatBedrockConverse
    from foldline.providers.bedrock.embeddings import BedrockEmbeddings

__all__ = ["BedrockEmbeddings", "ChatBedrock", "ChatBedrockConverse"]

__getattr__ = lazily(
    __name__,
    {
        ".chat": "ChatBedrock ChatBedrockConverse",
        ".embeddings": "BedrockEmbeddings",
    },
)
