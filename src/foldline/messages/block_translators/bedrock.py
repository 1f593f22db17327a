"""Translate blocks of models called through Bedrock without Converse: they are Anthropic's blocks."""

from __future__ import annotations

from foldline.messages.block_translators.anthropic import (
    translate_content,
    translate_content_chunk,
)

__all__ = [
    "translate_content",
    "translate_content_chunk",
]
