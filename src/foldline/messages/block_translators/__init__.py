"""From a provider's own content to standard blocks, one file per vendor.

A translator is a function of one native block that gives standard blocks, or None for a block it does not know.
Standard blocks come back as they are, so translating twice is translating once. Nothing here waits, and no vendor's
file knows another's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from foldline.messages.block_translators import (
    anthropic,
    bedrock,
    bedrock_converse,
    google_genai,
    groq,
    openai,
)
from foldline.messages.block_translators.pipeline import (
    ANY_PROVIDER,
    FINISHERS,
    TRANSLATORS,
    of_message,
    standard_blocks,
)
from foldline.protocol.blocks import ContentBlock

__all__ = ["get_translator", "register_translator", "standard_blocks", "translates_text"]

MessageTranslator: TypeAlias = Callable[[Any], list[ContentBlock]]

TRANSLATORS.update(
    {
        "anthropic": anthropic.translate,
        "bedrock": bedrock.translate,
        "bedrock_converse": bedrock_converse.translate,
        "aws_bedrock": bedrock_converse.translate,
        "openai": openai.translate,
        "azure": openai.translate,
        "azure_openai": openai.translate,
        "google": google_genai.translate,
        "google_genai": google_genai.translate,
        "google_vertexai": google_genai.translate,
        "gemini": google_genai.translate,
        "groq": groq.translate,
    }
)
ANY_PROVIDER += [
    openai.translate,
    anthropic.translate,
    google_genai.translate,
    bedrock_converse.translate,
]
FINISHERS[google_genai.translate] = google_genai.with_sources

REGISTERED: dict[str, dict[str, MessageTranslator]] = {}
"""Translators of whole messages that programs registered themselves."""


def translates_text(provider: str) -> bool:
    """Whether the plain text of a provider's message may become more than one block of text."""
    return provider in REGISTERED or TRANSLATORS.get(provider) in FINISHERS


def get_translator(provider: str) -> dict[str, MessageTranslator] | None:
    """Return how a provider's messages and chunks are read, or None for one that is not known."""
    if provider in REGISTERED:
        return REGISTERED[provider]
    if provider not in TRANSLATORS:
        return None
    read = of_message(TRANSLATORS[provider])
    return {"translate_content": read, "translate_content_chunk": read}


def register_translator(
    provider: str,
    translate_content: MessageTranslator,
    translate_content_chunk: MessageTranslator,
) -> None:
    """Teach foldline how a provider's messages and chunks read."""
    REGISTERED[provider] = {
        "translate_content": translate_content,
        "translate_content_chunk": translate_content_chunk,
    }


def __dir__() -> list[str]:
    return sorted(__all__)
