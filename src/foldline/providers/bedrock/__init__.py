"""Models of AWS Bedrock: over its Converse API, and Claude's and OpenAI's over their own."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.providers.bedrock.chat import (
        ChatBedrock as ChatBedrock,
        ChatBedrockConverse as ChatBedrockConverse,
    )
    from foldline.providers.bedrock.claude import (
        ChatAnthropicBedrock as ChatAnthropicBedrock,
        ChatAnthropicMantle as ChatAnthropicMantle,
        ChatOpenAIMantle as ChatOpenAIMantle,
    )
    from foldline.providers.bedrock.embeddings import BedrockEmbeddings as BedrockEmbeddings
