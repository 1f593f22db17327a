"""Translate Groq's blocks: chat completions; reasoning and executed tools are in `kwargs_blocks`."""

from __future__ import annotations

from foldline.messages.block_translators.openai import (
    translate_content,
    translate_content_chunk,
)

__all__ = [
    "translate_content",
    "translate_content_chunk",
]
