"""Translate blocks of models called through Bedrock without Converse: they are Anthropic's blocks."""

from __future__ import annotations

from foldline.messages.block_translators.anthropic import (
    translate,
    translate_content,
    translate_content_chunk,
)

__all__ = ["translate", "translate_content", "translate_content_chunk"]
