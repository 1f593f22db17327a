"""Translate a provider's own content to standard blocks, one file per vendor.

A translator is a function of one native block that returns standard blocks, or None for an unknown block. Standard
blocks are returned unchanged, so translation is idempotent. Pure; the files of vendors do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from foldline.messages.block_translators import (
    anthropic,
    bedrock_converse,
    google_genai,
    openai,
)
from foldline.messages.block_translators._pipeline import (
    FALLBACK_TRANSLATORS,
    METADATA_STEPS,
    TRANSLATORS,
    message_translator,
)
from foldline.protocol.blocks import ContentBlock

__all__ = [
    "get_translator",
    "register_translator",
    "translates_text",
]

MessageTranslator: TypeAlias = Callable[[Any], list[ContentBlock]]

TRANSLATORS.update(
    {
        "anthropic": anthropic.translate,
        "bedrock": anthropic.translate,
        "bedrock_converse": bedrock_converse.translate,
        "aws_bedrock": bedrock_converse.translate,
        "openai": openai.translate,
        "azure": openai.translate,
        "azure_openai": openai.translate,
        "google": google_genai.translate,
        "google_genai": google_genai.translate,
        "google_vertexai": google_genai.translate,
        "gemini": google_genai.translate,
        "groq": openai.translate,
    }
)
FALLBACK_TRANSLATORS += [
    openai.translate,
    anthropic.translate,
    google_genai.translate,
    bedrock_converse.translate,
]
METADATA_STEPS[google_genai.translate] = google_genai.add_citations

CUSTOM_TRANSLATORS: dict[str, dict[str, MessageTranslator]] = {}
"""Translators of messages registered by programs."""


def translates_text(provider: str) -> bool:
    """Whether the plain text of a provider's message may become more than one block of text."""
    return provider in CUSTOM_TRANSLATORS or TRANSLATORS.get(provider) in METADATA_STEPS


def get_translator(provider: str) -> dict[str, MessageTranslator] | None:
    """Return the translators of a provider's messages and chunks, or None for an unknown provider."""
    if provider in CUSTOM_TRANSLATORS:
        return CUSTOM_TRANSLATORS[provider]
    if provider not in TRANSLATORS:
        return None
    translate = message_translator(TRANSLATORS[provider])
    return {"translate_content": translate, "translate_content_chunk": translate}


def register_translator(
    provider: str,
    translate_content: MessageTranslator,
    translate_content_chunk: MessageTranslator,
) -> None:
    """Register the translators of a provider's messages and chunks."""
    CUSTOM_TRANSLATORS[provider] = {
        "translate_content": translate_content,
        "translate_content_chunk": translate_content_chunk,
    }


def __dir__() -> list[str]:
    return sorted(__all__)
